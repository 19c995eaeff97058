/* Questions to the clients of calls. */
#include "supervisor/mcp/call/input.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/call/late.h"
#include "supervisor/mcp/tasks/tasks.h"

#define DIGEST_START UINT64_C(0xcbf29ce484222325)

enum {
        MCP_INPUT_WAIT_MS = 6 * 60000, /* longer than a person has to answer */
        MCP_INPUT_MORE_MS = 60000,     /* than the asker waits, if that is longer */
        MCP_INPUT_GATHER_MS = 5,       /* to ask the questions of calls that run together at once */
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
        const char *name = arguments->lost[0] ? arguments->lost : arguments->session;
        uint64_t digest = DIGEST_START;

        add(&digest, arguments->code ? arguments->code : "", arguments->code_length);
        if (arguments->check_only)
                add(&digest, "check_only", sizeof("check_only"));
        if (arguments->plan)
                add(&digest, "plan", sizeof("plan"));
        if (arguments->plan_only)
                add(&digest, "only", sizeof("only"));
        if (arguments->session_given)
                add(&digest, name, strlen(name) + 1);
        add(&digest, arguments->from, strlen(arguments->from) + 1);
        add(&digest, arguments->from_checkpoint, strlen(arguments->from_checkpoint) + 1);
        return digest;
}

uint64_t mcp_input_digest_published(const char *method, const struct buffer *name,
                                    const struct buffer *arguments)
{
        uint64_t digest = DIGEST_START;

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

static void suspend(struct mcp_call *call)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(INPUT_MAX);
        struct mcp_suspension *s = &call->suspension;
        struct json_out out = {.to = &result};

        node_mint(s->state);
        json_out_begin(&out, NULL, '{');
        mcp_ask_put(&out, "inputRequests", &call->asks);
        json_out_text(&out, "requestState", s->state);
        json_out_end(&out, '}');
        if (++s->rounds > MCP_INPUT_ROUNDS_MAX || out.error < 0) {
                mcp_ask_end(&call->asks, "the client is asked for too much");
                return;
        }
        mcp_call_finish(call);
        s->active = true;
        call->reply.input_required = true;
        call->peer = NULL;
        uint32_t patience = mcp_ask_patience(&call->asks);
        set_due(call,
                patience >= MCP_INPUT_WAIT_MS ? patience + MCP_INPUT_MORE_MS : MCP_INPUT_WAIT_MS);
        reply_result(&call->reply, &result);
}

static void on_due(evutil_socket_t fd, short what, void *data)
{
        struct mcp_call *call = data;

        if (call->suspension.active)
                mcp_call_abandon(call);
        else if (!TAILQ_EMPTY(&call->asks.list) && !task_is_announced(&call->reply))
                suspend(call);
}

/* The client gets the question with the answer of its request, or with tasks/get. */
static int ask_modern(struct mcp_call *call, struct client_ask *ask, struct error *err)
{
        struct mcp_suspension *s = &call->suspension;
        bool is_task = task_is_announced(&call->reply);

        if (!is_task && !s->due)
                s->due = evtimer_new(call->server->base, on_due, call);
        if (!is_task && !s->due)
                return error_errno(err, ENOMEM, "ask the client");
        int r = mcp_ask_keep(&call->asks, call->server, ask, err);
        if (r < 0)
                return r;
        if (is_task)
                task_asks(&call->reply);
        else if (!s->active && !evtimer_pending(s->due, NULL))
                set_due(call, MCP_INPUT_GATHER_MS);
        return 0;
}

int mcp_input_ask(struct mcp_call *call, struct client_ask *ask, struct error *err)
{
        unsigned needs = ask->request.needs;

        if (call->cancelled || (call->can & needs) != needs)
                return error_set(err, EOPNOTSUPP, "the client does not declare that it can");
        if (call->modern)
                return ask_modern(call, ask, err);
        return mcp_ask_send(&call->asks, call->peer, call->peer ? call->reply.sink : NULL, ask,
                            err);
}

void mcp_input_page_done(struct mcp_call *call, const char *page)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(CLIENT_PAGE_MAX + 64);
        struct json_out out = {.to = &params};

        if (call->modern || !call->peer || !call->reply.sink)
                return;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "elicitationId", page);
        mcp_sink_notify_out(call->reply.sink, "notifications/elicitation/complete", &out);
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

void mcp_input_attach(struct mcp_call *call, const struct mcp_request *request, struct reply *reply)
{
        mcp_call_attach(call, request, reply);
        if (call->suspension.due && !TAILQ_EMPTY(&call->asks.list))
                set_due(call, MCP_INPUT_GATHER_MS);
}

bool mcp_input_resume(const struct mcp_request *request, uint64_t digest, struct reply *reply)
{
        yyjson_val *state = yyjson_obj_get(request->params, "requestState");
        struct mcp_call *call = find(request->peer->server, request->peer->principal, state);

        if (!call) {
                late_asks_answers(&request->peer->principal->late,
                                  yyjson_obj_get(request->params, "inputResponses"));
                return false;
        }
        if (call->suspension.digest != digest) {
                reply_error(reply, JSONRPC_INVALID_PARAMS,
                            "requestState belongs to a call with other arguments");
                return true;
        }
        mcp_input_attach(call, request, reply);
        mcp_call_start_wait(call);
        if (!mcp_call_give(call, yyjson_obj_get(request->params, "inputResponses")))
                return true;
        if (call->suspension.has_outcome)
                mcp_call_conclude(call);
        return true;
}

/* ---- the client, as tool calls see it ---- */

static void describe_client(void *data, struct cell_client *ret)
{
        const struct mcp_call *call = data;

        *ret = (struct cell_client){
                .can = call->cancelled ? 0 : call->can,
                .log_level = call->log_level == MCP_LOG_OFF ? NULL
                                                            : mcp_log_level_name(call->log_level),
        };
}

static int ask_client(void *data, struct client_ask *ask, struct error *err)
{
        return mcp_input_ask(data, ask, err);
}

static void page_done(void *data, const char *page)
{
        mcp_input_page_done(data, page);
}

static void show_progress(void *data, const char *server, const struct cell_progress *progress)
{
        struct mcp_call *call = data;

        live_progress(&call->live, server, progress);
}

static void show_step(void *data, const char *what, const char *text)
{
        struct mcp_call *call = data;

        live_step(&call->live, what, text);
}

static void show_log(void *data, const char *server, yyjson_val *params)
{
        struct mcp_call *call = data;

        live_log(&call->live, server, params);
}

const struct cell_client_calls mcp_input_client = {
        .describe = describe_client,
        .ask = ask_client,
        .page_done = page_done,
        .progress = show_progress,
        .step = show_step,
        .log = show_log,
};
