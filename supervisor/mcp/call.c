/* Calls of run_python that are under way. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/mcp/arguments.h"
#include "supervisor/mcp/result-content.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/server-internal.h"
#include "supervisor/mcp/tool.h"
#include "supervisor/session/clock.h"

struct mcp_call {
        struct mcp_call *next;
        struct mcp_server *server;
        struct reply reply;
        struct cell *cell;
        char session[SESSION_NAME_MAX + 1];
        size_t max_output;
        bool cancelled;    /* the client wants no answer any more */
        yyjson_doc *token; /* of its progress, or NULL */
        struct event *heartbeat;
        uint64_t started_us;
};

static void call_free(struct mcp_call *call)
{
        struct mcp_call **at = &call->server->calls;

        while (*at != call)
                at = &(*at)->next;
        *at = call->next;
        call->server->n_calls--;
        if (call->heartbeat)
                event_free(call->heartbeat);
        yyjson_doc_free(call->token);
        reply_done(&call->reply);
        free(call);
}

static void answer_rendered(struct mcp_server *server, struct reply *reply, int r,
                            const struct buffer *result)
{
        if (r >= 0)
                mcp_answer(server, reply, result);
        else
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR,
                                 r == -EMSGSIZE ? "the result is too large" : strerror(-r));
}

static void answer_refusal(struct mcp_server *server, struct reply *reply, const char *type,
                           const char *message, const char *session)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        int r = result_render_refusal(type, message, session, &result);
        answer_rendered(server, reply, r, &result);
}

/* Content that came with a later version would be an error to a client of an earlier one. */
static unsigned content_kinds(const struct mcp_server *server)
{
        return (server->version >= MCP_2025_03_26 ? CONTENT_AUDIO : 0) |
               (server->version >= MCP_2025_06_18 ? CONTENT_LINKS : 0);
}

static void on_done(void *data, struct cell *cell)
{
        struct mcp_call *call = data;
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        if (!call->cancelled) {
                int r = result_render(&cell->outcome, call->session, call->max_output,
                                      content_kinds(call->server), &result);
                answer_rendered(call->server, &call->reply, r, &result);
        } else if (call->reply.batch) {
                /* The array must not wait for an answer that never comes. */
                mcp_answer_error(call->server, &call->reply, JSONRPC_INTERNAL_ERROR, "cancelled");
        }
        call_free(call);
}

static void on_heartbeat(evutil_socket_t fd, short what, void *data)
{
        struct mcp_call *call = data;
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX);
        unsigned long long elapsed = (clock_us() - call->started_us) / 1000000;

        if (call->cancelled)
                return;
        int r = buffer_append(&params, "{\"progressToken\":", 17);
        if (r >= 0)
                r = json_append(&params, yyjson_doc_get_root(call->token));
        if (r >= 0)
                r = buffer_printf(
                        &params,
                        ",\"progress\":%llu,\"message\":\"%s for %llu s, %zu tool calls\"}",
                        elapsed, call->cell->number ? "running" : "waiting", elapsed,
                        call->cell->outcome.n_calls);
        if (r >= 0)
                mcp_notify(call->server, "notifications/progress", &params);
}

static void start_heartbeat(struct mcp_call *call, yyjson_val *params)
{
        yyjson_val *token = yyjson_obj_get(yyjson_obj_get(params, "_meta"), "progressToken");
        struct timeval t = clock_timeval_ms(MCP_HEARTBEAT_MS);
        struct reply copy = {};

        if (!yyjson_is_str(token) && !json_is_number(token))
                return;
        if (reply_init(&copy, token, NULL) < 0)
                return;
        call->token = copy.id_doc;
        call->heartbeat = event_new(call->server->base, -1, EV_PERSIST, on_heartbeat, call);
        if (call->heartbeat)
                evtimer_add(call->heartbeat, &t);
}

static struct mcp_call *call_new(struct mcp_server *server, const struct run_arguments *arguments,
                                 struct reply *reply)
{
        struct mcp_call *call = calloc(1, sizeof(*call));

        if (!call)
                return NULL;
        call->server = server;
        call->reply = *reply;
        *reply = (struct reply){};
        snprintf(call->session, sizeof(call->session), "%s", arguments->session);
        call->max_output = arguments->max_output;
        call->started_us = clock_us();
        call->next = server->calls;
        server->calls = call;
        server->n_calls++;
        return call;
}

static void run_cell(struct mcp_server *server, yyjson_val *params,
                     const struct run_arguments *arguments, struct reply *reply)
{
        struct error err = {};
        struct mcp_call *call = call_new(server, arguments, reply);

        if (!call) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        const struct cell_request request = {
                .code = arguments->code,
                .code_length = arguments->code_length,
                .timeout_ms = arguments->timeout_ms,
                .reset = arguments->reset,
                .request_id = reply_id(&call->reply),
                .done = on_done,
                .data = call,
        };
        if (sessions_run(server->sessions, arguments->session, &request, &call->cell, &err) < 0) {
                answer_refusal(server, &call->reply, "SandboxError", err.text, arguments->session);
                call_free(call);
                return;
        }
        start_heartbeat(call, params);
}

void mcp_call_start(struct mcp_server *server, yyjson_val *params, struct reply *reply)
{
        const char *name = json_string(params, "name", NULL);
        struct run_arguments arguments;
        struct error err = {};
        char text[256];

        if (!name || strcmp(name, TOOL_NAME) != 0) {
                snprintf(text, sizeof(text),
                         name ? "unknown tool: %.60s (there is %s)"
                              : "params.name must be a string%.0s (there is %s)",
                         name ? name : "", TOOL_NAME);
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, text);
                return;
        }
        if (run_arguments_parse(yyjson_obj_get(params, "arguments"), server->config, &arguments,
                                &err) < 0) {
                answer_refusal(server, reply, "ArgumentError", err.text, arguments.session);
                return;
        }
        if (server->n_calls >= MCP_CALLS_MAX) {
                answer_refusal(server, reply, "SandboxError",
                               "too many calls are under way: wait for some to end",
                               arguments.session);
                return;
        }
        run_cell(server, params, &arguments, reply);
}

static bool same_id(yyjson_val *a, yyjson_val *b)
{
        if (yyjson_is_raw(a) && yyjson_is_raw(b))
                return yyjson_get_len(a) == yyjson_get_len(b) &&
                       memcmp(yyjson_get_raw(a), yyjson_get_raw(b), yyjson_get_len(a)) == 0;
        return yyjson_is_str(a) && yyjson_is_str(b) &&
               yyjson_equals_strn(a, yyjson_get_str(b), yyjson_get_len(b));
}

void mcp_call_cancel(struct mcp_server *server, yyjson_val *request_id)
{
        for (struct mcp_call *call = server->calls; call; call = call->next) {
                if (call->cancelled || !same_id(reply_id(&call->reply), request_id))
                        continue;
                call->cancelled = true;
                cell_cancel(call->cell);
                return;
        }
        log_debug("a cancelled request is not under way");
}

void mcp_call_free_all(struct mcp_server *server)
{
        while (server->calls)
                call_free(server->calls);
}
