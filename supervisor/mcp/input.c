/*
 * Calls of modern clients that ask for input (2026-07-28, "Multi Round-Trip Requests").
 *
 * Theory of operation. The call is answered with its questions and a requestState. Its cell waits, with
 * its sandbox, until the client calls again with that state: running the code from its start would repeat
 * what it has done. The state is a name that nobody can guess; it is valid for one request of the same
 * principal with the same arguments, and for MCP_INPUT_WAIT_MS. A further round has another one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/mcp/call-internal.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/tasks.h"

enum {
        MCP_INPUT_WAIT_MS = 6 * 60000, /* longer than a person has to answer */
        MCP_INPUT_GATHER_MS = 5,       /* questions of calls that run together */
        MCP_INPUT_ROUNDS_MAX = 64,
        INPUT_MAX = 8 * 1024 * 1024,
};

static void add(uint64_t *digest, const void *bytes, size_t n)
{
        const unsigned char *s = bytes;

        /* FNV-1a. It tells requests apart by mistake only: the state cannot be guessed. */
        for (size_t i = 0; i < n; i++)
                *digest = (*digest ^ s[i]) * UINT64_C(0x100000001b3);
}

uint64_t mcp_input_digest(const struct run_arguments *arguments)
{
        uint64_t digest = UINT64_C(0xcbf29ce484222325);

        add(&digest, arguments->code ? arguments->code : "", arguments->code_length);
        if (arguments->check_only)
                add(&digest, "check_only", sizeof("check_only"));
        if (arguments->session_given)
                add(&digest, arguments->session, strlen(arguments->session) + 1);
        add(&digest, arguments->from, strlen(arguments->from) + 1);
        add(&digest, arguments->from_checkpoint, strlen(arguments->from_checkpoint) + 1);
        return digest;
}

uint64_t mcp_input_digest_published(const char *method, const struct buffer *name,
                                    const struct buffer *arguments)
{
        uint64_t digest = UINT64_C(0xcbf29ce484222325);

        add(&digest, method, strlen(method) + 1);
        add(&digest, buffer_bytes(name), name->length);
        add(&digest, "", 1);
        add(&digest, buffer_bytes(arguments), arguments->length);
        return digest;
}

static void set_due(struct mcp_call *call, uint32_t ms)
{
        const struct timeval in = clock_timeval_ms(ms);

        event_add(call->suspension.due, &in);
}

int mcp_input_append(const struct mcp_call *call, struct buffer *to)
{
        const struct mcp_ask *a;
        int r = buffer_append(to, "{", 1);

        TAILQ_FOREACH (a, &call->asks, link) {
                const struct client_request *request = &a->ask->request;
                if (r >= 0)
                        r = buffer_printf(to, "%s\"ask-%lld\":{\"method\":\"%s\",\"params\":",
                                          a == TAILQ_FIRST(&call->asks) ? "" : ",",
                                          (long long)a->id, client_request_method(request));
                if (r >= 0)
                        r = buffer_append(to, buffer_bytes(&request->params),
                                          request->params.length);
                if (r >= 0)
                        r = buffer_append(to, "}", 1);
        }
        return r < 0 ? r : buffer_append(to, "}", 1);
}

/* {"inputRequests": {…}, "requestState": "…"} */
static int append_requests(const struct mcp_call *call, struct buffer *to)
{
        int r = buffer_append_text(to, "{\"inputRequests\":");

        if (r >= 0)
                r = mcp_input_append(call, to);
        return r < 0 ? r : buffer_printf(to, ",\"requestState\":\"%s\"}", call->suspension.state);
}

static void suspend(struct mcp_call *call)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(INPUT_MAX);
        struct mcp_suspension *s = &call->suspension;

        unguessable(s->state);
        if (++s->rounds > MCP_INPUT_ROUNDS_MAX || append_requests(call, &result) < 0) {
                mcp_ask_end(call, "the client is asked for too much");
                return;
        }
        live_finish(&call->live);
        mcp_wait_stop(call);
        s->active = true;
        call->reply.input_required = true;
        call->peer = NULL;
        set_due(call, MCP_INPUT_WAIT_MS);
        mcp_answer(call->server, &call->reply, &result);
}

static void on_due(evutil_socket_t fd, short what, void *data)
{
        struct mcp_call *call = data;

        (void)fd;
        (void)what;
        if (call->suspension.active)
                mcp_call_abandon(call);
        else if (!TAILQ_EMPTY(&call->asks) && !task_is_announced(&call->reply))
                suspend(call);
}

int mcp_input_ask(struct mcp_call *call, struct error *err)
{
        struct mcp_suspension *s = &call->suspension;
        struct mcp_ask *a = TAILQ_LAST(&call->asks, mcp_ask_list);

        a->id = ++call->server->last_ask;
        if (task_is_announced(&call->reply)) {
                task_asks(&call->reply); /* tasks/get has the question */
                return 0;
        }
        if (!s->due)
                s->due = evtimer_new(call->server->base, on_due, call);
        if (!s->due)
                return error_errno(err, ENOMEM, "ask the client");
        /* If no request waits, it is asked with the next one. */
        if (!s->active && !evtimer_pending(s->due, NULL))
                set_due(call, MCP_INPUT_GATHER_MS);
        return 0;
}

static struct mcp_call *find(struct mcp_server *server, const struct mcp_principal *principal,
                             yyjson_val *state)
{
        for (struct mcp_call *call = server->calls; call; call = call->next) {
                const struct mcp_suspension *s = &call->suspension;
                /* A cancelled one waits for the end of its cell only. */
                if (s->active && !call->cancelled && call->principal == principal &&
                    yyjson_equals_str(state, s->state))
                        return call;
        }
        return NULL;
}

static struct mcp_ask *find_ask(struct mcp_call *call, yyjson_val *key)
{
        struct mcp_ask *a;
        char name[32];

        TAILQ_FOREACH (a, &call->asks, link) {
                snprintf(name, sizeof(name), "ask-%lld", (long long)a->id);
                if (yyjson_equals_str(key, name))
                        return a;
        }
        return NULL;
}

bool mcp_input_give(struct mcp_call *call, yyjson_val *responses)
{
        size_t i, n;
        yyjson_val *key, *value;
        bool gone = false;

        call->gone = &gone;
        yyjson_obj_foreach (responses, i, n, key, value) {
                struct mcp_ask *a = find_ask(call, key);
                if (a)
                        mcp_ask_answer(a, value);
                if (gone)
                        return false;
        }
        call->gone = NULL;
        return true;
}

void mcp_input_attach(struct mcp_call *call, const struct mcp_request *request, struct reply *reply)
{
        struct mcp_suspension *s = &call->suspension;

        if (s->due)
                event_del(s->due);
        s->active = false;
        s->state[0] = '\0';
        call->peer = request->peer;
        call->can = request->can;
        call->log_level = request->log_level;
        call->reply = *reply;
        *reply = (struct reply){};
        mcp_call_take_task(call);
        call->live.published = call->run != NULL;
        if (call->cell)
                live_start(&call->live, request, &call->reply, call->cell, call->session);
        if (s->due && !TAILQ_EMPTY(&call->asks))
                set_due(call, MCP_INPUT_GATHER_MS);
}

/* The cell has ended while nobody waited for it. */
void mcp_input_conclude(struct mcp_call *call)
{
        struct mcp_suspension *s = &call->suspension;
        struct cell_outcome outcome;

        cell_outcome_move(&outcome, &s->outcome);
        s->has_outcome = false;
        mcp_call_ended(call, s->number, &outcome);
        cell_outcome_done(&outcome);
}

bool mcp_input_resume(struct mcp_server *server, const struct mcp_request *request, uint64_t digest,
                      struct reply *reply)
{
        yyjson_val *state = yyjson_obj_get(request->params, "requestState");
        struct mcp_call *call = find(server, request->peer->principal, state);

        if (!call)
                return false;
        if (call->suspension.digest != digest) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 "requestState belongs to a call with other arguments");
                return true;
        }
        mcp_input_attach(call, request, reply);
        mcp_wait_start(call);
        if (!mcp_input_give(call, yyjson_obj_get(request->params, "inputResponses")))
                return true;
        if (call->suspension.has_outcome)
                mcp_input_conclude(call);
        return true;
}

void mcp_input_keep(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        struct mcp_suspension *s = &call->suspension;

        cell_outcome_move(&s->outcome, outcome);
        s->number = number;
        s->has_outcome = true;
}

void mcp_input_done(struct mcp_call *call)
{
        struct mcp_suspension *s = &call->suspension;

        if (s->due)
                event_free(s->due);
        s->due = NULL;
        if (s->has_outcome)
                cell_outcome_done(&s->outcome);
}
