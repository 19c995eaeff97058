/*
 * run_python: from its arguments to its result, and calls that do not wait for the end of their code.
 *
 * Theory of operation. A call is the owner of its cell, and at most one request waits for it. When the time
 * that the request gave is over, it is answered with the status running, and the call stays without a
 * request: it is unattended. A later request of the same principal that names the session and has no code is
 * attached to the call instead of a new one. If another request waits for it, that one is answered first,
 * without output, so that each output and each result is in one answer only. The result of a cell that
 * has ended meanwhile is kept until a request without code fetches it, or it is added to the next answer of the
 * session.
 *
 * A call whose cell is not the first of its session has not run anything. If its time is over, it is
 * answered with the status busy, and its cell is dropped.
 */
#include "supervisor/mcp/call/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/call/branches.h"
#include "supervisor/mcp/call/input.h"
#include "supervisor/mcp/call/plans.h"
#include "supervisor/mcp/call/result.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tasks/task.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/session.h"

enum {
        KEPT_MS = 3600 * 1000,             /* a result, until it is fetched */
        KEPT_BYTES_MAX = 64 * 1024 * 1024, /* of a principal; the newest result in any case */
        ASKS_CHECK_MS = 250, /* a wait does not end while the client has an unanswered request */
        CHARACTERS_MAX =
                100000, /* of a stream, in an answer before the end: it is made in the loop */
        EARLIER_CHARACTERS = 2000, /* of a stream of a result that is added to another one */
};

static const char interrupted_by_call[] = "another call of the session interrupted it";

/* ---- what a result does not show whole ---- */

static void tell_resource(const struct mcp_call *call, const struct resource_uri *uri)
{
        call->principal->resources_serial++;
        subscriptions_lists_changed(call->server, call->principal);
        subscriptions_updated(call->server, call->principal, uri);
}

/* Adds the files that a call made or changed. */
static void keep_names(const struct mcp_call *call, const struct cell_outcome *outcome)
{
        struct mcp_principal *principal = call->principal;
        bool changed = false;

        /* A new sandbox starts with an empty directory; a lost one leaves no files. */
        if (outcome->state != CELL_STATE_KEPT && outcome->state != CELL_STATE_RESTORED &&
            outcome->state != CELL_STATE_ROLLED_BACK)
                changed = resource_store_forget_files(&principal->store, call->session);
        for (size_t i = 0; i < outcome->n_files && outcome->state != CELL_STATE_LOST; i++) {
                struct resource_uri uri = {.kind = RESOURCE_FILE};

                snprintf(uri.session, sizeof(uri.session), "%s", call->session);
                snprintf(uri.path, sizeof(uri.path), "%s", outcome->files[i].path);
                if (resource_store_name_file(&principal->store, &uri, &outcome->files[i]) > 0)
                        changed = true;
                subscriptions_updated(call->server, principal, &uri);
        }
        if (changed) {
                principal->resources_serial++;
                subscriptions_lists_changed(call->server, principal);
        }
}

/* URIs of the outputs of which the result shows a part, into uris and options. cell 0: none. */
static void whole_name(const char *session, uint64_t cell, const struct cell_outcome *outcome,
                       struct resource_uri uris[CELL_STREAMS], struct result_options *options)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                uris[i] = (struct resource_uri){
                        .kind = RESOURCE_OUTPUT, .cell = cell, .stream = (enum cell_stream)i};
                memcpy(uris[i].session, session, sizeof(uris[i].session));
                if ((options->was_cut[i] || outcome->streams[i].characters > options->max_output) &&
                    cell != 0)
                        options->whole[i] = &uris[i];
        }
        options->cell = cell;
}

static void keep_displays(const struct mcp_call *call, const struct result_options *options,
                          struct cell_outcome *outcome)
{
        size_t n = outcome->n_displays;
        bool linked[CELL_DISPLAYS_MAX];

        for (size_t i = 0; i < n; i++)
                linked[i] = result_content_is_linked(outcome, i, options);
        for (size_t i = 0; i < n; i++) {
                const struct resource_uri uri = result_content_uri(i, options);
                struct cell_display *display = &outcome->displays[i];
                const char *type = result_content_type(display);
                if (type != display->mime_type)
                        snprintf(display->mime_type, sizeof(display->mime_type), "%s", type);
                if (linked[i] &&
                    resource_store_keep_display(&call->principal->store, &uri, display) >= 0)
                        tell_resource(call, &uri);
        }
}

/* After the result was made: keeps these outputs, and the displays that it does not have, whole. */
static void whole_keep(const struct mcp_call *call, const struct result_options *options,
                       struct cell_outcome *outcome)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                if (options->whole[i] &&
                    resource_store_keep(&call->principal->store, options->whole[i],
                                        &outcome->streams[i]) >= 0)
                        tell_resource(call, options->whole[i]);
        }
        keep_displays(call, options, outcome);
        keep_names(call, outcome);
}

/* ---- results that no request waits for ---- */

static void set_due(struct mcp_call *call, uint32_t ms)
{
        const struct timeval in = clock_timeval_ms(ms);

        if (call->wait.due)
                evtimer_add(call->wait.due, &in);
}

/* Of a principal, the oldest kept one but this that has (bytes: more than its own facts), or NULL. */
static struct mcp_call *oldest(struct mcp_call *newest, bool has_bytes, size_t *bytes)
{
        struct mcp_call *found = NULL;
        uint64_t since = UINT64_MAX;

        *bytes = 0;
        for (struct mcp_call *call = newest->server->calls; call; call = call->next) {
                size_t n = call->suspension.outcome.kept.bytes;
                if (!call->wait.is_kept || call->principal != newest->principal)
                        continue;
                *bytes += n;
                if (call == newest || call->wait.kept_us > since || (has_bytes && n == 0))
                        continue;
                found = call;
                since = call->wait.kept_us;
        }
        return found;
}

/* A call without code still gets the status of the dropped result. */
static void drop_output(struct mcp_call *call)
{
        struct cell_outcome *outcome = &call->suspension.outcome;

        cell_outcome_strip(outcome);
        memset(call->wait.shown, 0, sizeof(call->wait.shown));
        memset(call->wait.was_cut, 0, sizeof(call->wait.was_cut));
        snprintf(outcome->note, sizeof(outcome->note),
                 "its output and value were dropped, because no call has fetched them and others "
                 "took their room");
}

/* Results that no call fetches are limited for each principal: the oldest is dropped. */
static void make_room(struct mcp_call *newest)
{
        struct mcp_call *old;
        size_t bytes;

        while ((old = oldest(newest, true, &bytes)) && bytes > KEPT_BYTES_MAX)
                drop_output(old);
        if (newest->principal->n_kept <= MCP_KEPT_MAX)
                return;
        old = oldest(newest, false, &bytes);
        log_warning("session %s: the result of a call was dropped: %d are kept", old->session,
                    MCP_KEPT_MAX);
        mcp_call_free(old);
}

/* The cell of an unattended call has ended. */
static void wait_keep(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        mcp_call_keep(call, number, outcome);
        call->wait.is_kept = true;
        call->server->n_calls--;
        call->principal->n_calls--;
        call->wait.kept_us = clock_us();
        call->principal->n_kept++;
        make_room(call);
        set_due(call, KEPT_MS);
}

/* A call of the session that has begun, of which a result is kept, or whose code runs. */
static struct mcp_call *find(struct mcp_server *server, const struct mcp_principal *principal,
                             const char *session, bool kept)
{
        for (struct mcp_call *call = server->calls; call; call = call->next) {
                bool runs = call->cell && (call->cell->number != 0 || call->wait.unattended ||
                                           call->cell->is_postponed);

                if (call->principal == principal && !call->run && !call->tool && !call->cancelled &&
                    !call->answer && (kept ? call->suspension.has_outcome : runs) &&
                    strcmp(call->session, session) == 0)
                        return call;
        }
        return NULL;
}

/* The part of the outcome that earlier answers have. */
static void wait_options(const struct mcp_call *call, struct result_options *options)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                options->from[i] = call->wait.shown[i];
                options->was_cut[i] = call->wait.was_cut[i];
        }
        options->said = call->wait.said;
}

static int append_kept(struct mcp_call *call, struct buffer *to)
{
        struct cell_outcome *outcome = &call->suspension.outcome;
        struct resource_uri uris[CELL_STREAMS];
        struct result_options options = {
                .session = call->session, .max_output = EARLIER_CHARACTERS, .kinds = call->kinds};

        wait_options(call, &options);
        options.said = "of the call that was left while its code ran";
        whole_name(call->session, call->suspension.number, outcome, uris, &options);
        int r = result_render_text(outcome, &options, to);
        whole_keep(call, &options, outcome);
        return r;
}

/* The call is answered: appends the text of the kept result of its session, if one exists, and frees it. */
static void take_earlier(struct mcp_call *call, struct buffer *to)
{
        struct mcp_call *kept = call->principal->n_kept > 0
                                        ? find(call->server, call->principal, call->session, true)
                                        : NULL;

        if (!kept || kept == call || !kept->wait.is_kept)
                return;
        if (append_kept(kept, to) < 0)
                log_warning("session %s: the result of an earlier call is lost: out of memory",
                            call->session);
        mcp_call_free(kept);
}

/* ---- answers before the end ---- */

static void describe(const struct mcp_call *call, const char *why, char *to, size_t size)
{
        const struct cell *cell = call->cell;
        uint64_t calls = cell->outcome.calls_total;
        size_t n = 0;

        if (cell->is_postponed)
                n = (size_t)snprintf(to, size, "a plan of the code is being made");
        else if (cell->number == 0)
                n = (size_t)snprintf(to, size, "the code waits for its sandbox");
        else
                n = (size_t)snprintf(
                        to, size, "the code has run for %llu s of at most %g s",
                        (unsigned long long)((clock_us() - cell->started_us) / 1000000),
                        (double)cell->request.timeout_ms / 1000);
        if (calls > 0)
                n += (size_t)snprintf(to + n, size - n, "; tool calls: %llu",
                                      (unsigned long long)calls);
        if (call->wait.person)
                n += (size_t)snprintf(to + n, size - n, "; it %s", call->wait.person);
        snprintf(to + n, size - n, "; %s", why);
}

/* The outcome so far, of a cell that runs; owns nothing. */
static void view_running(const struct mcp_call *call, const char *why, struct cell_outcome *view)
{
        const struct cell *cell = call->cell;

        *view = (struct cell_outcome){.status = CELL_RUNNING};
        for (int i = 0; i < CELL_STREAMS; i++)
                view->streams[i] = cell->outcome.streams[i];
        view->duration_us = cell->number ? clock_us() - cell->started_us : 0;
        describe(call, why, view->why, sizeof(view->why));
}

/* The call continues without its request. */
static void answer_and_leave(struct mcp_call *call, const struct cell_outcome *view,
                             const struct result_options *options)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        int r = result_render(view, options, &result);
        live_finish(&call->live);
        mcp_call_unattend(call);
        reply_made(&call->reply, r, &result);
}

static void answer_running(struct mcp_call *call)
{
        _cleanup_buffer_ struct buffer earlier = BUFFER_INIT(RESULT_MAX);
        char why[SESSION_NAME_MAX + 64];
        struct cell_outcome view;
        struct result_options options = {
                .session = call->session,
                .max_output = call->max_output < CHARACTERS_MAX ? call->max_output : CHARACTERS_MAX,
                .earlier = &earlier,
        };

        snprintf(why, sizeof(why), "it goes on: call with session \"%s\" and no code for the rest",
                 call->session);
        view_running(call, why, &view);
        take_earlier(call, &earlier);
        wait_options(call, &options);
        for (int i = 0; i < CELL_STREAMS; i++) {
                struct capture_mark end = capture_end(&view.streams[i]);
                call->wait.was_cut[i] |= end.characters - call->wait.shown[i].characters >
                                         options.max_output;
                call->wait.shown[i] = end;
        }
        answer_and_leave(call, &view, &options);
}

/* Another request takes the place of the one that waits: it gets the output, and the result. */
static void answer_replaced(struct mcp_call *call)
{
        struct cell_outcome view;
        const struct result_options options = {.session = call->session,
                                               .max_output = CHARACTERS_MAX};

        view_running(call, "another call waits for it now, and gets its output and result", &view);
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&view.streams[i]);
        answer_and_leave(call, &view, &options);
}

/* Nothing was run. */
static void answer_busy(struct mcp_call *call)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        char key[SESSION_KEY_MAX + 1], why[200];
        struct session_running running = {};

        session_key_make(call->principal->key, call->session, key);
        const struct session *session = sessions_find(call->server->sessions, key);
        if (session)
                session_describe_running(session, &running);
        if (running.code[0])
                snprintf(why, sizeof(why),
                         "nothing was run, because the session has run other code for %llu s: call "
                         "without code to wait for that, or with interrupt to end it first",
                         (unsigned long long)(running.duration_us / 1000000));
        else
                snprintf(why, sizeof(why),
                         "nothing was run, because other calls of the session were first");
        int r = result_render_busy(&running, why, call->session, &result);
        live_finish(&call->live);
        call->cancelled = true;
        call->peer = NULL;
        reply_made(&call->reply, r, &result);
        cell_cancel(call->cell);
}

static void on_due(evutil_socket_t fd, short what, void *data)
{
        struct mcp_call *call = data;

        if (call->wait.is_kept) {
                log_info("session %s: the result of a call was dropped: no call has fetched it",
                         call->session);
                mcp_call_free(call);
                return;
        }
        if (!call->cell || call->cancelled || call->suspension.active || call->wait.unattended)
                return;
        if (!TAILQ_EMPTY(&call->asks.list)) {
                set_due(call, ASKS_CHECK_MS);
        } else if (call->cell->number == 0 && !cell_is_first(call->cell)) {
                /* A task is there to wait. */
                if (call->wait.is_limited || !task_is_announced(&call->reply))
                        answer_busy(call);
        } else if (call->wait.is_limited ||
                   (call->wait.person_ms > 0 && !task_is_announced(&call->reply))) {
                answer_running(call);
        }
}

/* The arguments of the request; its cell is in its session. */
static void wait_begin(struct mcp_call *call, const struct run_arguments *arguments)
{
        struct mcp_wait *wait = &call->wait;

        wait->is_limited = arguments->wait_given;
        wait->ms = arguments->wait_ms;
        wait->listens = !arguments->code;
        if (!wait->due)
                wait->due = evtimer_new(call->server->base, on_due, call);
        if (!wait->due)
                log_warning("a call waits without a limit: out of memory");
        mcp_call_start_wait(call);
}

/* ---- calls without code ---- */

/* Answers that the call was not made. */
static void answer_refusal(struct reply *reply, const char *type, const char *message,
                           const char *session)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        int r = result_render_refusal(type, message, session, &result);
        reply_made(reply, r, &result);
}

static void attach(struct mcp_call *call, const struct mcp_request *request,
                   const struct run_arguments *arguments, struct reply *reply)
{
        /* Only a modern client can be asked again. */
        if (!call->modern || request->era != ERA_MODERN)
                mcp_ask_end(&call->asks, "another request waits for the call now");
        live_done(&call->live);
        call->max_output = arguments->max_output;
        call->suspension.digest = mcp_input_digest(arguments);
        mcp_input_attach(call, request, reply);
        wait_begin(call, arguments);
}

static void refuse(const struct mcp_request *request, const struct run_arguments *arguments,
                   struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        enum node_bond bond = node_bond(arguments->session);
        char key[SESSION_KEY_MAX + 1], why[CELL_WHY_MAX + 200], elsewhere[NODE_WHY_MAX];

        session_key_make(request->peer->principal->key, arguments->session, key);
        const struct session *session = sessions_find(server->sessions, key);
        const char *lost = session ? session_lost(session) : "";
        if (!session && (bond == NODE_MINTED || bond == NODE_FOREIGN)) {
                node_why_lost(arguments->session, elsewhere);
                lost = elsewhere;
        }
        snprintf(why, sizeof(why),
                 "no code runs in session \"%s\", and no result of it waits%s%s: give code",
                 arguments->session,
                 *lost == '\0' ? ""
                 : session     ? "; its sandbox has ended: "
                               : "; the session was lost: ",
                 lost);
        answer_refusal(reply, "SessionError", why, arguments->session);
}

/* A call without code. Takes ownership of the reply. */
static void wait_listen(const struct mcp_request *request, const struct run_arguments *arguments,
                        struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        struct mcp_principal *principal = request->peer->principal;
        struct mcp_call *call = find(server, principal, arguments->session, !arguments->interrupt);
        char key[SESSION_KEY_MAX + 1];

        session_key_make(principal->key, arguments->session, key);
        sessions_note_named(server->sessions, key);

        if (!call)
                call = find(server, principal, arguments->session, arguments->interrupt);
        if (!call) {
                refuse(request, arguments, reply);
                return;
        }
        mcp_sink_name_session(reply->sink, arguments->session);
        if (call->cell && !call->wait.unattended && !call->suspension.active)
                answer_replaced(call);
        if (call->wait.is_kept) {
                call->wait.is_kept = false;
                call->principal->n_kept--;
                call->server->n_calls++;
                call->principal->n_calls++;
        }
        attach(call, request, arguments, reply);
        if (call->suspension.has_outcome)
                mcp_call_conclude(call);
        else if (arguments->interrupt && (call->cell->number != 0 || call->cell->is_postponed))
                cell_interrupt(call->cell, interrupted_by_call);
}

/* Interrupts the cell that the call's session runs. */
static void interrupt_running(struct mcp_call *call)
{
        struct mcp_call *running = find(call->server, call->principal, call->session, false);

        if (!running || running == call ||
            (running->cell->number == 0 && !running->cell->is_postponed))
                return;
        cell_interrupt(running->cell, interrupted_by_call);
        snprintf(call->wait.said, sizeof(call->wait.said),
                 "the code that the session ran before was interrupted");
}

/* ---- calls with code ---- */

/* A result that is being made; owns what the options point to. */
struct run_answer {
        struct mcp_answer answer; /* first */
        char session[SESSION_NAME_MAX + 1];
        struct resource_uri uris[CELL_STREAMS];
        struct result_options options;
        struct buffer earlier;
        char said[sizeof(((struct mcp_wait *)NULL)->said)];
};

static int make_answer(struct mcp_answer *answer, struct buffer *to)
{
        struct run_answer *a = (void *)answer;

        return result_render(&answer->outcome, &a->options, to);
}

static void on_answered(struct mcp_answer *answer)
{
        struct run_answer *a = (void *)answer;

        whole_keep(answer->call, &a->options, &answer->outcome);
}

static void free_earlier(struct mcp_answer *answer)
{
        struct run_answer *a = (void *)answer;

        buffer_done(&a->earlier);
}

static void on_ended(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        static const struct mcp_answer_kind kind = {make_answer, on_answered, free_earlier};

        plan_run_take_outcome(call->plan, outcome);
        if (call->wait.unattended) {
                wait_keep(call, number, outcome);
                return;
        }
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
        wait_options(call, &a->options);
        memcpy(a->said, call->wait.said, sizeof(a->said));
        if (call->wait.is_unnamed && !*a->said && outcome->state != CELL_STATE_NONE)
                snprintf(a->said, sizeof(a->said),
                         "new session \"%s\": pass it as `session` to use it again", call->session);
        a->options.said = a->said;
        a->options.earlier = &a->earlier;
        buffer_init(&a->earlier, RESULT_MAX);
        take_earlier(call, &a->earlier);
        whole_name(a->session, number, outcome, a->uris, &a->options);
        mcp_answer_start(&a->answer, &kind, call, outcome);
}

static void on_freed(struct mcp_call *call)
{
        plan_run_drop(call->plan);
}

static const struct mcp_call_kind run_kind = {.ended = on_ended, .done = on_freed};

static void say_lost(struct mcp_call *call, const char *name)
{
        char why[NODE_WHY_MAX];

        node_why_lost(name, why);
        snprintf(
                call->wait.said, sizeof(call->wait.said),
                "session \"%s\" was lost: %s; new session \"%s\": pass it as `session` to use it again",
                name, why, call->session);
}

/* A name that leads to one node exists there only. Without the session there, this call gets one of its own: the name must
 * not come into being a second time. Returns why nothing is run, or NULL. */
static const char *leave_lost(const struct mcp_request *request, struct run_arguments *arguments)
{
        enum node_bond bond = arguments->session_given ? node_bond(arguments->session) : NODE_FREE;
        char key[SESSION_KEY_MAX + 1];

        session_key_make(request->peer->principal->key, arguments->session, key);
        if (bond != NODE_FOREIGN && (bond != NODE_MINTED || arguments->branches > 0 ||
                                     sessions_find(request->peer->server->sessions, key)))
                return NULL;
        if (arguments->branches > 0)
                return "branches: session begins with the name of another node, where these sessions would be: choose another name";
        memcpy(arguments->lost, arguments->session, sizeof(arguments->lost));
        mcp_call_name_session(arguments->session);
        return NULL;
}

static void run_cell(const struct mcp_request *request, const struct run_arguments *arguments,
                     struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        const struct config_profile *own = mcp_profile(request->peer, request->era), *used = NULL;
        char key[SESSION_KEY_MAX + 1], from[SESSION_KEY_MAX + 1];
        struct error err = {};
        struct mcp_call *call = mcp_call_new(request, &run_kind, arguments->session,
                                             arguments->max_output, reply);

        if (!call) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        mcp_profile_for(server->config, own, arguments->language, &used);
        const struct cell_request cell = {
                .code = arguments->code,
                .code_length = arguments->code_length,
                .language = arguments->language,
                .needs = arguments->dependencies,
                .timeout_ms = arguments->timeout_ms,
                .reset = arguments->reset,
                .check_only = arguments->check_only,
                .restore = arguments->restore,
                .checkpoint = arguments->checkpoint,
                .rolls_back = arguments->rolls_back && !arguments->check_only,
                .profile = arguments->profile ? arguments->profile
                           : used             ? used->name
                                              : NULL,
                .is_unnamed = arguments->lost[0] ||
                              (request->peer->fresh_sessions && !arguments->session_given),
                .profile_asked = arguments->profile != NULL,
                .from = arguments->from[0] ? from : NULL,
                .from_checkpoint = arguments->from_checkpoint[0] ? arguments->from_checkpoint
                                                                 : NULL,
                .request_id = reply_id(&call->reply),
                .client_name = call->client_name,
                .trace = &call->trace,
                .done = mcp_call_done,
                .watch = mcp_call_output,
                .client = &mcp_input_client,
                .waits = mcp_call_waits,
                .data = call,
        };
        session_key_make(call->principal->key, arguments->from, from);
        call->wait.is_unnamed = cell.is_unnamed;
        if (arguments->lost[0])
                say_lost(call, arguments->lost);
        if (call->modern && call->can)
                call->suspension.digest = mcp_input_digest(arguments);
        session_key_make(call->principal->key, arguments->session, key);
        sessions_expect(server->sessions, used); /* who did not ask for the tools, too */
        int r = arguments->branches > 0 ? branch_calls_start(call, &cell, arguments->session,
                                                             arguments->branches, &err)
                : arguments->plan ? plan_run_start(call, &cell, key, arguments->plan_only, &err)
                                  : sessions_run(server->sessions, key, &cell, &call->cell, &err);
        if (r < 0) {
                answer_refusal(&call->reply, "SandboxError", err.text, arguments->session);
                mcp_call_free(call);
        }
        if (r < 0 || arguments->branches > 0)
                return;
        mcp_sink_name_session(call->reply.sink, call->session);
        if (live_start(&call->live, request, &call->reply, call->cell, call->session) < 0)
                log_warning("a call goes without progress: out of memory");
        if (arguments->interrupt)
                interrupt_running(call);
        wait_begin(call, arguments);
}

void mcp_run_code(const struct mcp_request *request, enum language language, struct reply *reply)
{
        yyjson_val *params = request->params;
        struct run_arguments arguments;
        struct service_refusal refusal;
        struct error err = {};

        if (run_arguments_parse(yyjson_obj_get(params, "arguments"), request->peer->server->config,
                                mcp_profile(request->peer, request->era), language, &arguments,
                                &err) < 0) {
                answer_refusal(reply, "ArgumentError", err.text, arguments.session);
                return;
        }
        if (request->era == ERA_MODERN && yyjson_is_str(yyjson_obj_get(params, "requestState"))) {
                if (!mcp_input_resume(request, mcp_input_digest(&arguments), reply))
                        reply_error(reply, JSONRPC_INVALID_PARAMS,
                                    "requestState is not known: it may have expired");
                return;
        }
        const char *why = arguments.code ? leave_lost(request, &arguments) : NULL;
        if (arguments.code && request->peer->fresh_sessions && !arguments.session_given)
                mcp_call_name_session(arguments.session);
        if (!arguments.code) {
                wait_listen(request, &arguments, reply);
                return;
        }
        if (why) {
                answer_refusal(reply, "SandboxError", why, arguments.session);
                return;
        }
        if (mcp_call_admit(request->peer, arguments.session,
                           arguments.branches > 0 ? arguments.branches : 1, &refusal) < 0) {
                if (!reply_refuse(reply, &refusal))
                        answer_refusal(reply, "SandboxError", refusal.text, arguments.session);
                return;
        }
        run_cell(request, &arguments, reply);
}
