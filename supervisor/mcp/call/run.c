/* run_python: from its arguments to its result. */
#include "supervisor/mcp/call/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/answer.h"
#include "supervisor/mcp/call/input.h"
#include "supervisor/mcp/call/wait.h"
#include "supervisor/mcp/call/whole.h"
#include "supervisor/mcp/profile.h"

/* A result that is being made; owns what the options point to. */
struct run_answer {
        struct mcp_answer answer; /* first */
        char session[SESSION_NAME_MAX + 1];
        struct resource_uri uris[CELL_STREAMS];
        struct result_options options;
        struct buffer earlier;
        char said[sizeof(((struct mcp_wait *)NULL)->said)];
};

static void make_answer(struct background_job *job)
{
        struct run_answer *a = (void *)job;

        a->answer.r = result_render(&a->answer.outcome, &a->options, &a->answer.result);
}

static void free_answer(struct background_job *job)
{
        struct run_answer *a = (void *)job;

        mcp_answer_done(&a->answer);
        buffer_done(&a->earlier);
        free(a);
}

static void on_answer(struct background_job *job)
{
        struct run_answer *a = (void *)job;
        struct mcp_call *call = a->answer.call;

        mcp_answer_send(&a->answer);
        mcp_whole_keep(call, &a->options, &a->answer.outcome);
        free_answer(job);
        mcp_call_free(call);
}

static void answer(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        static const struct background_kind kind = {make_answer, on_answer, free_answer};
        struct run_answer *a = calloc(1, sizeof(*a));

        mcp_call_finish(call);
        if (!a) {
                reply_error(&call->reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                mcp_call_free(call);
                return;
        }
        memcpy(a->session, call->session, sizeof(a->session));
        a->options = (struct result_options){
                .session = a->session, .max_output = call->max_output, .kinds = call->kinds};
        mcp_wait_options(call, &a->options);
        memcpy(a->said, call->wait.said, sizeof(a->said));
        a->options.said = a->said;
        a->options.earlier = &a->earlier;
        buffer_init(&a->earlier, RESULT_MAX);
        mcp_wait_take_earlier(call, &a->earlier);
        mcp_whole_name(a->session, number, outcome, a->uris, &a->options);
        mcp_answer_start(&a->answer, &kind, call, outcome);
}

static void on_ended(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        if (call->wait.unattended)
                mcp_wait_keep(call, number, outcome);
        else
                answer(call, number, outcome);
}

static const struct mcp_call_kind run_kind = {.ended = on_ended};

static void run_cell(const struct mcp_request *request, const struct run_arguments *arguments,
                     struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        const struct config_profile *own = mcp_profile(request->peer, request->era);
        char key[SESSION_KEY_MAX + 1], from[SESSION_KEY_MAX + 1];
        struct error err = {};
        struct mcp_call *call = mcp_call_new(request, &run_kind, arguments->session,
                                             arguments->max_output, reply);

        if (!call) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        const struct cell_request cell = {
                .code = arguments->code,
                .code_length = arguments->code_length,
                .needs = arguments->dependencies,
                .timeout_ms = arguments->timeout_ms,
                .reset = arguments->reset,
                .check_only = arguments->check_only,
                .restore = arguments->restore,
                .checkpoint = arguments->checkpoint,
                .rolls_back = arguments->rolls_back && !arguments->check_only,
                .profile = arguments->profile ? arguments->profile
                           : own              ? own->name
                                              : NULL,
                .profile_asked = arguments->profile != NULL,
                .from = arguments->from[0] ? from : NULL,
                .from_checkpoint = arguments->from_checkpoint[0] ? arguments->from_checkpoint
                                                                 : NULL,
                .request_id = reply_id(&call->reply),
                .done = mcp_call_done,
                .watch = mcp_call_output,
                .client = &mcp_input_client,
                .data = call,
        };
        session_key_make(call->principal->name, arguments->from, from);
        if (call->modern && call->can)
                call->suspension.digest = mcp_input_digest(arguments);
        session_key_make(call->principal->name, arguments->session, key);
        sessions_expect(server->sessions, own); /* who did not ask for the tools, too */
        if (sessions_run(server->sessions, key, &cell, &call->cell, &err) < 0) {
                mcp_answer_refusal(&call->reply, "SandboxError", err.text, arguments->session);
                mcp_call_free(call);
                return;
        }
        if (live_start(&call->live, request, &call->reply, call->cell, call->session) < 0)
                log_warning("a call goes without progress: out of memory");
        if (arguments->interrupt)
                mcp_wait_interrupt(call);
        mcp_wait_begin(call, arguments);
}

void mcp_run_python(const struct mcp_request *request, struct reply *reply)
{
        yyjson_val *params = request->params;
        struct run_arguments arguments;
        struct error err = {};

        if (run_arguments_parse(yyjson_obj_get(params, "arguments"), request->peer->server->config,
                                mcp_profile(request->peer, request->era), &arguments, &err) < 0) {
                mcp_answer_refusal(reply, "ArgumentError", err.text, arguments.session);
                return;
        }
        if (request->era == ERA_MODERN && yyjson_is_str(yyjson_obj_get(params, "requestState"))) {
                if (!mcp_input_resume(request, mcp_input_digest(&arguments), reply))
                        reply_error(reply, JSONRPC_INVALID_PARAMS,
                                    "requestState is not known: it may have expired");
                return;
        }
        if (!arguments.code) {
                mcp_wait_listen(request, &arguments, reply);
                return;
        }
        if (request->peer->fresh_sessions && !arguments.session_given)
                mcp_call_name_session(arguments.session);
        const char *why = mcp_call_quota(request->peer, arguments.session);
        if (why) {
                mcp_answer_refusal(reply, "SandboxError", why, arguments.session);
                return;
        }
        run_cell(request, &arguments, reply);
}
