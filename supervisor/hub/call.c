/* One call of a tool. */
#include "supervisor/hub/call.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/hub/access.h"
#include "supervisor/hub/hub-internal.h"

static struct hub_call_list *list_of(struct hub_call *call)
{
        switch (call->state) {
        case CALL_WAITING:
                return &call->server->waiting;
        case CALL_SENT:
                return &call->server->sent[(uint64_t)call->id % CALL_BUCKETS];
        default:
                return &call->hub->finished;
        }
}

/* Out of its list and its server's accounts. */
static void detach(struct hub_call *call)
{
        TAILQ_REMOVE(list_of(call), call, link);
        event_del(&call->deadline);
        if (call->state == CALL_FINISHED)
                return;
        call->server->n_calls--;
        if (call->state == CALL_WAITING)
                call->server->waiting_bytes -= call->params.length;
        buffer_done(&call->params);
}

void hub_call_free(struct hub_call *call)
{
        jsonrpc_done(&call->answer);
        free(call->text);
        buffer_done(&call->params);
        free(call->tool);
        free(call);
}

void hub_call_free_all(struct hub_call_list *list)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(list))) {
                TAILQ_REMOVE(list, call, link);
                event_del(&call->deadline);
                hub_call_free(call);
        }
}

/* Its callback is due. */
static void finish(struct hub_call *call, enum hub_outcome outcome)
{
        call->result.outcome = outcome;
        call->result.duration_us = clock_us() - call->since;
        call->state = CALL_FINISHED;
        TAILQ_INSERT_TAIL(&call->hub->finished, call, link);
        event_active(&call->hub->due, EV_TIMEOUT, 0);
}

static void fail(struct hub_call *call, enum hub_outcome outcome, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static void fail(struct hub_call *call, enum hub_outcome outcome, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(call->message, sizeof(call->message), format, args);
        va_end(args);
        call->result.message = call->message;
        finish(call, outcome);
}

void hub_call_tell(struct hub_call *call)
{
        assert(call->state == CALL_FINISHED);
        TAILQ_REMOVE(&call->hub->finished, call, link);
        call->fn(call->data, &call->result);
        hub_call_free(call);
}

static void cancel(struct hub_call *call, const char *reason)
{
        char params[128];
        int n = snprintf(params, sizeof(params), "{\"requestId\":%lld,\"reason\":\"%s\"}",
                         (long long)call->id, reason);

        /* When it cannot be sent there is nothing to be done: the answer will be passed over. */
        hub_server_notify(call->server, "notifications/cancelled", params, (size_t)n);
}

void hub_call_drop(struct hub_call *call)
{
        if (call->state == CALL_SENT)
                cancel(call, "nobody waits for it any more");
        detach(call);
        hub_call_free(call);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct hub_call *call = data;
        double seconds = call->timeout_ms / 1000.0;
        const char *server = call->server->config->name;
        bool was_sent = call->state == CALL_SENT;

        (void)fd;
        (void)what;
        if (was_sent)
                cancel(call, "timeout");
        detach(call);
        if (was_sent)
                fail(call, HUB_TIMEOUT, "server \"%s\" did not answer within %g s", server,
                     seconds);
        else
                fail(call, HUB_TIMEOUT, "server \"%s\" did not start within %g s", server, seconds);
}

static void set_deadline(struct hub_call *call)
{
        struct timeval in = {.tv_sec = call->timeout_ms / 1000,
                             .tv_usec = (suseconds_t)(call->timeout_ms % 1000) * 1000};

        evtimer_add(&call->deadline, &in);
}

/* Sends it; the server is READY. The call is in no list. */
static void send_call(struct hub_call *call)
{
        struct hub_server *s = call->server;

        if (!hub_tools_has(s->tools, call->tool)) {
                fail(call, HUB_NOT_FOUND, "server \"%s\" has no tool \"%.200s\"", s->config->name,
                     call->tool);
                return;
        }
        call->id = ++s->last_id;
        int r = hub_server_request(s, call->id, "tools/call", buffer_bytes(&call->params),
                                   call->params.length);
        if (r == -EMSGSIZE) {
                fail(call, HUB_UNAVAILABLE,
                     "server \"%s\" does not read what it is sent: %zu MiB are waiting for it",
                     s->config->name, s->queue.length >> 20);
                return;
        }
        if (r < 0) {
                fail(call, HUB_UNAVAILABLE, "cannot send to server \"%s\": %s", s->config->name,
                     strerrordesc_np(-r));
                return;
        }
        buffer_done(&call->params);
        call->result.sent = true;
        call->state = CALL_SENT;
        TAILQ_INSERT_TAIL(list_of(call), call, link);
        s->n_calls++;
        if (!evtimer_pending(&call->deadline, NULL))
                set_deadline(call);
}

/* In order; what is sent leaves the list, what cannot be sent is finished. */
void hub_call_send_waiting(struct hub_server *s)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(&s->waiting))) {
                TAILQ_REMOVE(&s->waiting, call, link);
                s->n_calls--;
                s->waiting_bytes -= call->params.length;
                send_call(call);
                if (call->state == CALL_FINISHED)
                        event_del(&call->deadline);
        }
}

static void wait_for_server(struct hub_call *call)
{
        struct hub_server *s = call->server;

        if (s->waiting_bytes > 0 && s->waiting_bytes + call->params.length > HUB_QUEUE_MAX) {
                fail(call, HUB_UNAVAILABLE,
                     "server \"%s\" is starting, and %zu MiB wait for it already", s->config->name,
                     s->waiting_bytes >> 20);
                return;
        }
        call->state = CALL_WAITING;
        TAILQ_INSERT_TAIL(&s->waiting, call, link);
        s->n_calls++;
        s->waiting_bytes += call->params.length;
        if (s->state == SERVER_STOPPED || s->state == SERVER_FAILED)
                hub_server_start(s);
}

static void route(struct hub_call *call)
{
        struct hub_server *s = call->server;
        const char *unusable = hub_server_unusable(s);

        if (unusable) {
                fail(call, HUB_UNAVAILABLE, "server \"%s\": %s", s->config->name, unusable);
                return;
        }
        if (s->n_calls >= HUB_CALLS_MAX) {
                fail(call, HUB_UNAVAILABLE, "server \"%s\" has %d calls in flight already",
                     s->config->name, HUB_CALLS_MAX);
                return;
        }
        uint64_t now = clock_us();
        hub_server_list_used(s);
        if (s->state == SERVER_READY)
                send_call(call);
        else if (s->state == SERVER_FAILED && now < s->retry_at)
                fail(call, HUB_UNAVAILABLE, "server \"%s\": %s (tried %u times, again in %llu s)",
                     s->config->name, s->error.text, s->failures,
                     (unsigned long long)((s->retry_at - now + 999999) / 1000000));
        else
                wait_for_server(call);
}

/* The one of this name; of several, the one that can be used (the others have a problem). */
static struct hub_server *find_server(struct hub *hub, const char *name)
{
        struct hub_server *found = NULL;

        for (size_t i = 0; i < hub->n_servers; i++) {
                struct hub_server *s = hub->servers[i];
                if (strcmp(s->config->name, name) != 0)
                        continue;
                if (!hub_server_unusable(s))
                        return s;
                if (!found)
                        found = s;
        }
        return found;
}

static int write_params(struct buffer *b, const char *tool, yyjson_val *arguments)
{
        int r = buffer_append_text(b, "{\"name\":");

        if (r >= 0)
                r = json_append_string(b, tool, strlen(tool));
        if (r >= 0)
                r = buffer_append_text(b, ",\"arguments\":");
        if (r >= 0)
                r = arguments ? json_append(b, arguments) : buffer_append(b, "{}", 2);
        return r < 0 ? r : buffer_append(b, "}", 1);
}

static int new_call(struct hub_call **ret, struct hub *hub, const char *tool, yyjson_val *arguments,
                    struct error *err)
{
        struct hub_call *call = calloc(1, sizeof(*call));
        if (!call)
                return error_errno(err, ENOMEM, "call");
        call->hub = hub;
        call->since = clock_us();
        call->state = CALL_FINISHED;
        buffer_init(&call->params, LINES_MOST);
        evtimer_assign(&call->deadline, hub->base, on_deadline, call);
        call->tool = strdup(tool);
        int r = call->tool ? write_params(&call->params, tool, arguments) : -ENOMEM;
        if (r < 0) {
                hub_call_free(call);
                return error_errno(err, -r, "write the arguments of %.100s", tool);
        }
        *ret = call;
        return 0;
}

/* Why the profile may not call it: its outcome then. Returns whether it may. */
static bool is_in_reach(struct hub_call *call, const struct config_profile *profile)
{
        const struct config_server *server = call->server->config;
        char blame[320];

        if (hub_access_tool(profile, server, call->tool))
                return true;
        hub_access_blame(profile, server, call->tool, blame, sizeof(blame));
        if (hub_access_server(profile, server))
                fail(call, HUB_NOT_FOUND, "tool \"%.200s\" of server \"%s\" is not in reach of %s",
                     call->tool, server->name, blame);
        else
                fail(call, HUB_NOT_FOUND, "server \"%s\" is not in reach of %s", server->name,
                     blame);
        return false;
}

int hub_call(struct hub *hub, const struct config_profile *profile, const char *server,
             const char *tool, yyjson_val *arguments, uint32_t timeout_ms,
             void (*fn)(void *data, const struct hub_result *result), void *data,
             struct hub_call **ret, struct error *err)
{
        struct hub_call *call = NULL;

        if (arguments && !yyjson_is_obj(arguments))
                return error_set(err, EINVAL, "the arguments of %.100s are not an object", tool);
        int r = new_call(&call, hub, tool, arguments, err);
        if (r < 0)
                return r;
        call->fn = fn;
        call->data = data;
        call->server = find_server(hub, server);
        *ret = call;
        if (!call->server) {
                fail(call, HUB_NOT_FOUND, "there is no server \"%.200s\"", server);
                return 0;
        }
        if (!is_in_reach(call, profile))
                return 0;
        uint32_t own = call->server->config->timeout_ms;
        call->timeout_ms = timeout_ms ? timeout_ms : own ? own : HUB_CALL_MS;
        route(call);
        /* A time that the caller gave is for all of it; the server's own is for the answer, as
         * starting has its own. */
        if (timeout_ms && call->state == CALL_WAITING)
                set_deadline(call);
        return 0;
}

static void fail_all(struct hub_call_list *list, const char *message)
{
        struct hub_call *call;

        while ((call = TAILQ_FIRST(list))) {
                detach(call);
                fail(call, HUB_UNAVAILABLE, "%s", message);
        }
}

void hub_call_fail_sent(struct hub_server *s, const char *message)
{
        for (size_t i = 0; i < CALL_BUCKETS; i++)
                fail_all(&s->sent[i], message);
}

void hub_call_fail_waiting(struct hub_server *s, const char *message)
{
        fail_all(&s->waiting, message);
}

static struct hub_call *find_number(struct hub_server *s, int64_t n)
{
        struct hub_call *call;

        TAILQ_FOREACH (call, &s->sent[(uint64_t)n % CALL_BUCKETS], link) {
                if (call->id == n)
                        return call;
        }
        return NULL;
}

struct hub_call *hub_call_find(struct hub_server *s, yyjson_val *id)
{
        int64_t n;

        return json_int64(id, &n) < 0 ? NULL : find_number(s, n);
}

/* The one call that was sent; NULL when there are none or several. */
static struct hub_call *find_only(struct hub_server *s)
{
        struct hub_call *only = NULL;

        if (s->n_calls != 1)
                return NULL;
        for (size_t i = 0; i < CALL_BUCKETS && !only; i++)
                only = TAILQ_FIRST(&s->sent[i]);
        return only;
}

struct hub_call *hub_call_guess(struct hub_server *s, const char *line, size_t n)
{
        int64_t id;

        if (s->n_calls == 0 || n == 0 || line[0] != '{')
                return NULL;
        if (jsonrpc_guess_id(line, n, &id))
                return find_number(s, id);
        /* Many servers write the id last: of a line that was cut it is missing. */
        return n == LINES_MOST ? find_only(s) : NULL;
}

void hub_call_spoiled(struct hub_call *call, const char *why)
{
        detach(call);
        fail(call, HUB_PROTOCOL, "server \"%s\" gave no proper answer: %s",
             call->server->config->name, why);
}

/* Why this is no CallToolResult; NULL when it is one. A missing content counts as an empty one. */
static const char *find_fault(yyjson_val *result)
{
        yyjson_val *content = yyjson_obj_get(result, "content");
        yyjson_val *is_error = yyjson_obj_get(result, "isError");
        yyjson_val *block;
        size_t i, n;

        if (!yyjson_is_obj(result))
                return "the result is not an object";
        if (is_error && !yyjson_is_bool(is_error))
                return "isError is not a boolean";
        if (content && !yyjson_is_arr(content))
                return "the content is not an array";
        yyjson_arr_foreach (content, i, n, block) {
                if (!json_string(block, "type", NULL))
                        return "a block of the content has no type";
        }
        return NULL;
}

/* What a server wants to know before it goes on; "" when it does not say. */
static const char *first_request(yyjson_val *result)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_obj_get(result, "inputRequests"));
        yyjson_val *key = yyjson_obj_iter_next(&iter);
        const char *method = key ? json_string(yyjson_obj_iter_get_val(key), "method", NULL) : NULL;

        return method ? method : "";
}

/* Of MCP 2026-07-28: a result that is not the end of the call is refused. Returns whether it was.
 */
static bool refuse_unfinished(struct hub_call *call, yyjson_val *result)
{
        const char *type = json_string(result, "resultType", NULL);
        const char *server = call->server->config->name;

        if (call->server->speaks != HUB_ERA_MODERN || !type || strcmp(type, "complete") == 0)
                return false;
        detach(call);
        if (strcmp(type, "input_required") == 0)
                fail(call, HUB_PROTOCOL,
                     "server \"%s\" asks for input before it goes on (%.60s), and there is nobody whom Cloister could ask",
                     server, first_request(result));
        else
                fail(call, HUB_PROTOCOL,
                     "server \"%s\" answered with a result of the kind \"%.40s\", which Cloister did not ask for and cannot wait for",
                     server, type);
        return true;
}

/* The line that it lies in goes when the next is read. */
static void keep_text(struct hub_call *call, const char *text, size_t n)
{
        call->text = text ? malloc(n) : NULL;
        if (!call->text)
                return;
        memcpy(call->text, text, n);
        call->result.text = call->text;
        call->result.text_length = n;
}

void hub_call_answer(struct hub_call *call, struct jsonrpc_message *answer)
{
        const char *fault = answer->kind == JSONRPC_RESPONSE ? find_fault(answer->result) : NULL;

        if (fault) {
                hub_call_spoiled(call, fault);
                return;
        }
        if (answer->kind == JSONRPC_RESPONSE && refuse_unfinished(call, answer->result))
                return;
        detach(call);
        call->answer = *answer;
        *answer = (struct jsonrpc_message){};
        if (call->answer.kind == JSONRPC_RESPONSE) {
                call->result.result = call->answer.result;
                keep_text(call, call->answer.text, call->answer.text_length);
                call->answer.text = NULL;
                finish(call, HUB_OK);
                return;
        }
        call->result.rpc_code = call->answer.error_code;
        call->result.rpc_data = call->answer.error_data;
        call->result.message = call->answer.error_message;
        finish(call, HUB_PROTOCOL);
}
