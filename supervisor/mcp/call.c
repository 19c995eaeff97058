/*
 * Pending calls of run_python.
 *
 * A large answer is made in the background (rpc/background.h) from the outcome, which the job owns; the
 * call stays in its list until then.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rpc/background.h"
#include "supervisor/mcp/call-internal.h"
#include "supervisor/mcp/published-run.h"
#include "supervisor/mcp/resources.h"
#include "supervisor/mcp/result-content.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/tasks.h"
#include "supervisor/mcp/tool.h"
#include "supervisor/session/cell/cell-client.h"
#include "supervisor/session/machine/queue.h"

enum {
        LARGE_MIN = 256 * 1024,    /* bytes that an answer is made from */
        EARLIER_CHARACTERS = 2000, /* of a stream of a result that is added to another one */
};

/* An answer, made in the background. */
struct answer_job {
        struct background_job job; /* first */
        struct mcp_call *call;
        char session[SESSION_NAME_MAX + 1];
        struct cell_outcome outcome;
        struct resource_uri uris[CELL_STREAMS];
        struct result_options options; /* points to members of the job */
        struct buffer earlier;
        char said[sizeof(((struct mcp_wait *)NULL)->said)];
        bool is_published;
        struct published_view view;
        struct buffer result;
        int r;
};

void mcp_call_free(struct mcp_call *call)
{
        struct mcp_call **at = &call->server->calls;

        if (call->gone)
                *call->gone = true;
        while (*at != call)
                at = &(*at)->next;
        *at = call->next;
        if (!call->wait.is_kept) {
                call->server->n_calls--;
                call->principal->n_calls--;
        }
        mcp_wait_done(call);
        call->run = published_run_free(call->run);
        mcp_ask_end(call, "the call has ended");
        mcp_input_done(call);
        live_done(&call->live);
        reply_done(&call->reply);
        if (call->answer)
                background_cancel(&call->answer->job);
        free(call);
}

void mcp_call_refuse(struct mcp_server *server, struct reply *reply, const char *type,
                     const char *message, const char *session)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        int r = result_render_refusal(type, message, session, &result);
        mcp_answer_made(server, reply, r, &result);
}

/* A client of an earlier version would take later kinds of content for an error. */
unsigned mcp_call_content_kinds(const struct mcp_request *request)
{
        if (request->era == ERA_MODERN)
                return CONTENT_ALL;
        return (request->peer->version >= MCP_2025_03_26 ? CONTENT_AUDIO : 0) |
               (request->peer->version >= MCP_2025_06_18 ? CONTENT_LINKS : 0);
}

/* How many bytes are rendered, about. */
static size_t bytes_of(const struct cell_outcome *o, size_t max_output)
{
        size_t n = o->result ? yyjson_doc_get_read_size(o->result) : 0;

        for (int i = 0; i < CELL_STREAMS; i++)
                n += o->streams[i].characters < max_output || o->streams[i].has_return
                             ? o->streams[i].characters
                             : max_output;
        for (size_t i = 0; i < o->n_displays; i++)
                n += o->displays[i].data.length;
        return n;
}

static void run_answer(struct background_job *job)
{
        struct answer_job *a = (void *)job;

        if (a->is_published)
                a->r = published_render(&a->outcome, &a->view, a->options.kinds,
                                        a->options.max_output, &a->result);
        else
                a->r = result_render(&a->outcome, &a->options, &a->result);
}

static void free_answer(struct background_job *job)
{
        struct answer_job *a = (void *)job;

        cell_outcome_done(&a->outcome);
        background_free(a->result.data, a->result.allocated);
        buffer_done(&a->earlier);
        free(a);
}

static void on_answer(struct background_job *job)
{
        struct answer_job *a = (void *)job;
        struct mcp_call *call = a->call;

        call->answer = NULL;
        mcp_answer_made(call->server, &call->reply, a->r, &a->result);
        if (!a->is_published)
                mcp_call_keep_whole(call, &a->options, &a->outcome);
        free_answer(job);
        mcp_call_free(call);
}

/* Takes the outcome, and frees the call later. Returns false when out of memory. */
static bool answer_later(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        static const struct background_kind kind = {run_answer, on_answer, free_answer};
        struct answer_job *a = calloc(1, sizeof(*a));

        if (!a)
                return false;
        a->call = call;
        memcpy(a->session, call->session, sizeof(a->session));
        cell_outcome_move(&a->outcome, outcome);
        a->options = (struct result_options){
                .session = a->session, .max_output = call->max_output, .kinds = call->kinds};
        mcp_wait_options(call, &a->options);
        memcpy(a->said, call->wait.said, sizeof(a->said));
        a->options.said = a->said;
        a->options.earlier = &a->earlier;
        buffer_init(&a->earlier, RESULT_MAX);
        if (call->run) {
                a->is_published = true;
                a->view = call->run->view;
        } else {
                mcp_wait_take_earlier(call, &a->earlier);
                mcp_call_name_whole(a->session, number, &a->outcome, a->uris, &a->options);
        }
        buffer_init(&a->result, RESULT_MAX);
        call->answer = a;
        background_start(&a->job, &kind, call->server->base);
        return true;
}

static void answer_outcome(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX),
                                       earlier = BUFFER_INIT(RESULT_MAX);
        struct resource_uri uris[CELL_STREAMS];
        struct result_options options = {
                .session = call->session,
                .max_output = call->max_output,
                .kinds = call->kinds,
                .earlier = &earlier,
        };

        mcp_wait_options(call, &options);
        mcp_wait_take_earlier(call, &earlier);
        mcp_call_name_whole(call->session, number, outcome, uris, &options);
        int r = result_render(outcome, &options, &result);
        mcp_answer_made(call->server, &call->reply, r, &result);
        mcp_call_keep_whole(call, &options, outcome);
}

int mcp_call_append_kept(struct mcp_call *call, struct buffer *to)
{
        struct cell_outcome *outcome = &call->suspension.outcome;
        struct resource_uri uris[CELL_STREAMS];
        struct result_options options = {
                .session = call->session, .max_output = EARLIER_CHARACTERS, .kinds = call->kinds};

        mcp_wait_options(call, &options);
        options.said = "of the call that was left while its code ran";
        mcp_call_name_whole(call->session, call->suspension.number, outcome, uris, &options);
        int r = result_render_text(outcome, &options, to);
        mcp_call_keep_whole(call, &options, outcome);
        return r;
}

static void answer_published(struct mcp_call *call, const struct cell_outcome *outcome)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        int r = published_render(outcome, &call->run->view, call->kinds, call->max_output, &result);
        mcp_answer_made(call->server, &call->reply, r, &result);
}

void mcp_call_conclude(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        live_finish(&call->live);
        mcp_wait_stop(call);
        if (bytes_of(outcome, call->max_output) > LARGE_MIN && answer_later(call, number, outcome))
                return;
        if (call->run)
                answer_published(call, outcome);
        else
                answer_outcome(call, number, outcome);
        mcp_call_free(call);
}

void mcp_call_ended(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        if (call->run && published_take(call, outcome))
                return; /* it asks the client, or was answered */
        mcp_call_conclude(call, number, outcome);
}

void mcp_call_done(void *data, struct cell *cell)
{
        struct mcp_call *call = data;

        mcp_ask_end(call, "the cell that has made the call has ended");
        call->cell = NULL;
        if (call->cancelled)
                mcp_call_free(call);
        else if (call->wait.unattended)
                mcp_wait_keep(call, cell->number, &cell->outcome);
        else if (call->suspension.active)
                mcp_input_keep(call, cell->number, &cell->outcome);
        else
                mcp_call_ended(call, cell->number, &cell->outcome);
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
        return mcp_ask_call(data, ask, err);
}

static void show_progress(void *data, const char *server, const struct cell_progress *progress)
{
        struct mcp_call *call = data;

        live_progress(&call->live, server, progress);
}

static void show_log(void *data, const char *server, yyjson_val *params)
{
        struct mcp_call *call = data;

        live_log(&call->live, server, params);
}

const struct cell_client_calls mcp_call_client = {
        .describe = describe_client,
        .ask = ask_client,
        .progress = show_progress,
        .log = show_log,
};

void mcp_call_output(void *data, enum cell_stream stream, const char *bytes, size_t n)
{
        struct mcp_call *call = data;

        live_output(&call->live, stream, bytes, n);
}

static void cancel(struct mcp_call *call);

/* The request was answered with a task. */
static void detach(void *data, bool silent)
{
        struct mcp_call *call = data;

        call->peer = NULL;
        if (!call->modern)
                call->can = 0;
        if (!silent)
                return;
        live_done(&call->live);
        call->reply.sink = mcp_sink_unref(call->reply.sink);
}

static void cancel_task(void *data)
{
        struct mcp_call *call = data;

        call->reply.sink = mcp_sink_unref(call->reply.sink);
        cancel(call);
}

static int append_input(void *data, struct buffer *to)
{
        const struct mcp_call *call = data;

        if (TAILQ_EMPTY(&call->asks))
                return 0;
        int r = mcp_input_append(call, to);
        return r < 0 ? r : 1;
}

static void give_input(void *data, yyjson_val *responses)
{
        mcp_input_give(data, responses);
}

void mcp_call_take_task(struct mcp_call *call)
{
        static const struct task_work work = {detach, cancel_task, append_input, give_input};

        if (call->reply.task)
                task_attach(&call->reply, &work, call);
}

struct mcp_call *mcp_call_new(struct mcp_peer *peer, const char *session, size_t max_output,
                              struct reply *reply)
{
        struct mcp_server *server = peer->server;
        struct mcp_call *call = calloc(1, sizeof(*call));

        if (!call)
                return NULL;
        call->server = server;
        call->peer = peer;
        call->principal = peer->principal;
        call->principal->n_calls++;
        call->reply = *reply;
        *reply = (struct reply){};
        mcp_call_take_task(call);
        snprintf(call->session, sizeof(call->session), "%s", session);
        call->max_output = max_output;
        TAILQ_INIT(&call->asks);
        call->next = server->calls;
        server->calls = call;
        server->n_calls++;
        return call;
}

void mcp_call_name_session(char session[SESSION_NAME_MAX + 1])
{
        memcpy(session, "s-", 3);
        unguessable(session + 2);
}

/* Returns why the principal may start no call in this session now, or NULL. */
const char *mcp_call_quota(const struct mcp_peer *peer, const char *session)
{
        const struct mcp_principal *principal = peer->principal;
        struct sessions *sessions = peer->server->sessions;
        char key[SESSION_KEY_MAX + 1];

        if (peer->server->n_calls >= MCP_CALLS_MAX ||
            (principal->calls_max > 0 && principal->n_calls >= principal->calls_max))
                return "too many calls are under way: wait for some to end";
        session_key_make(principal->name, session, key);
        if (principal->sessions_max > 0 && !sessions_is_live(sessions, key) &&
            sessions_live_of(sessions, principal->name) >= principal->sessions_max)
                return "you have as many live sessions as your quota allows: use one of them";
        return NULL;
}

static void run_cell(struct mcp_server *server, const struct mcp_request *request,
                     const struct run_arguments *arguments, struct reply *reply)
{
        const struct config_profile *own = mcp_profile(request->peer, request->era);
        char key[SESSION_KEY_MAX + 1], from[SESSION_KEY_MAX + 1];
        struct error err = {};
        struct mcp_call *call = mcp_call_new(request->peer, arguments->session,
                                             arguments->max_output, reply);

        if (!call) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
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
                .client = &mcp_call_client,
                .data = call,
        };
        session_key_make(call->principal->name, arguments->from, from);
        call->kinds = mcp_call_content_kinds(request);
        call->modern = request->era == ERA_MODERN;
        call->can = call->modern ? request->can : request->peer->can;
        call->log_level = call->modern ? request->log_level : request->peer->log_level;
        if (call->modern && call->can)
                call->suspension.digest = mcp_input_digest(arguments);
        session_key_make(call->principal->name, arguments->session, key);
        sessions_expect(server->sessions, own); /* who did not ask for the tools, too */
        if (sessions_run(server->sessions, key, &cell, &call->cell, &err) < 0) {
                mcp_call_refuse(server, &call->reply, "SandboxError", err.text, arguments->session);
                mcp_call_free(call);
                return;
        }
        if (live_start(&call->live, request, &call->reply, call->cell, call->session) < 0)
                log_warning("a call goes without progress: out of memory");
        if (arguments->interrupt)
                mcp_wait_interrupt(call);
        mcp_wait_begin(call, arguments);
}

void mcp_call_start(struct mcp_server *server, const struct mcp_request *request,
                    struct reply *reply)
{
        yyjson_val *params = request->params;
        const char *name = json_string(params, "name", NULL);
        const struct config_published *tool = name ? published_find(server,
                                                                    request->peer->principal,
                                                                    PUBLISHED_TOOL, name)
                                                   : NULL;
        struct run_arguments arguments;
        struct error err = {};
        char text[256];

        if (tool) {
                published_call_tool(server, request, tool, reply);
                return;
        }
        if (!name || strcmp(name, TOOL_NAME) != 0) {
                snprintf(text, sizeof(text),
                         name ? "unknown tool: %.60s (there is %s)"
                              : "params.name must be a string%.0s (there is %s)",
                         name ? name : "", TOOL_NAME);
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, text);
                return;
        }
        if (run_arguments_parse(yyjson_obj_get(params, "arguments"), server->config,
                                mcp_profile(request->peer, request->era), &arguments, &err) < 0) {
                mcp_call_refuse(server, reply, "ArgumentError", err.text, arguments.session);
                return;
        }
        if (request->era == ERA_MODERN && yyjson_is_str(yyjson_obj_get(params, "requestState"))) {
                if (!mcp_input_resume(server, request, mcp_input_digest(&arguments), reply))
                        mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                         "requestState is not known: it may have expired");
                return;
        }
        if (!arguments.code) {
                mcp_wait_listen(server, request, &arguments, reply);
                return;
        }
        if (request->peer->fresh_sessions && !arguments.session_given)
                mcp_call_name_session(arguments.session);
        const char *why = mcp_call_quota(request->peer, arguments.session);
        if (why) {
                mcp_call_refuse(server, reply, "SandboxError", why, arguments.session);
                return;
        }
        run_cell(server, request, &arguments, reply);
}

static void end(struct mcp_call *call)
{
        call->cancelled = true;
        mcp_ask_end(call, "the call was cancelled");
        mcp_answer_nothing(call->server, &call->reply);
        live_done(&call->live);
        if (call->cell)
                cell_cancel(call->cell);
        else
                mcp_call_free(call);
}

/* A request that only waits ends without its code. */
static void cancel(struct mcp_call *call)
{
        if (!mcp_wait_leave(call))
                end(call);
}

void mcp_call_abandon(struct mcp_call *call)
{
        end(call);
}

static struct mcp_call *find_pending(const struct mcp_peer *peer, yyjson_val *id)
{
        for (struct mcp_call *call = peer->server->calls; call; call = call->next) {
                if (call->peer == peer && !call->cancelled &&
                    jsonrpc_id_equals(reply_id(&call->reply), id))
                        return call;
        }
        return NULL;
}

bool mcp_call_is_pending(const struct mcp_peer *peer, yyjson_val *id)
{
        return find_pending(peer, id) != NULL;
}

bool mcp_call_cancel(struct mcp_peer *peer, yyjson_val *request_id)
{
        struct mcp_call *call = find_pending(peer, request_id);

        if (call)
                cancel(call);
        return call;
}

/* cell_cancel() may end the call, and with it the list's element. */
static struct mcp_call *find_of(const struct mcp_peer *peer)
{
        struct mcp_call *call = peer->server->calls;

        while (call && call->peer != peer)
                call = call->next;
        return call;
}

void mcp_call_drop(struct mcp_peer *peer)
{
        struct mcp_call *call;

        while ((call = find_of(peer))) {
                call->peer = NULL;
                if (!call->cancelled)
                        cancel(call);
        }
}

void mcp_server_drop_calls(struct mcp_server *server)
{
        while (server->calls) {
                server->calls->cell = NULL;
                mcp_call_free(server->calls);
        }
}
