/* Calls without a request. */
#include "supervisor/mcp/call/wait.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/mcp/call/answer.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/call/input.h"
#include "supervisor/mcp/call/whole.h"
#include "supervisor/mcp/tasks/task.h"
#include "supervisor/session/cell/cell.h"
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

/* ---- answers before the end ---- */

static void describe(const struct mcp_call *call, const char *why, char *to, size_t size)
{
        const struct cell *cell = call->cell;
        uint64_t calls = cell->outcome.calls_total;
        size_t n = 0;

        if (cell->number == 0)
                n = (size_t)snprintf(to, size, "the code waits for its sandbox");
        else
                n = (size_t)snprintf(
                        to, size, "the code has run for %llu s of at most %g s",
                        (unsigned long long)((clock_us() - cell->started_us) / 1000000),
                        (double)cell->request.timeout_ms / 1000);
        if (calls > 0)
                n += (size_t)snprintf(to + n, size - n, "; tool calls: %llu",
                                      (unsigned long long)calls);
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

static void answer_running(struct mcp_call *call)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX),
                                       earlier = BUFFER_INIT(RESULT_MAX);
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
        mcp_wait_take_earlier(call, &earlier);
        mcp_wait_options(call, &options);
        int r = result_render(&view, &options, &result);
        for (int i = 0; i < CELL_STREAMS; i++) {
                struct capture_mark end = capture_end(&view.streams[i]);
                call->wait.was_cut[i] |= end.characters - call->wait.shown[i].characters >
                                         options.max_output;
                call->wait.shown[i] = end;
        }
        live_finish(&call->live);
        mcp_call_unattend(call);
        reply_made(&call->reply, r, &result);
}

/* Another request takes the place of the one that waits: it gets the output, and the result. */
static void answer_replaced(struct mcp_call *call)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct cell_outcome view;
        const struct result_options options = {.session = call->session,
                                               .max_output = CHARACTERS_MAX};

        view_running(call, "another call waits for it now, and gets its output and result", &view);
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&view.streams[i]);
        int r = result_render(&view, &options, &result);
        live_finish(&call->live);
        mcp_call_unattend(call);
        reply_made(&call->reply, r, &result);
}

/* Nothing was run. */
static void answer_busy(struct mcp_call *call)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        char key[SESSION_KEY_MAX + 1], why[200];
        struct session_running running = {};

        session_key_make(call->principal->name, call->session, key);
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

/* ---- time ---- */

static void set_due(struct mcp_call *call, uint32_t ms)
{
        const struct timeval in = clock_timeval_ms(ms);

        if (call->wait.due)
                evtimer_add(call->wait.due, &in);
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
        } else if (call->wait.is_limited) {
                answer_running(call);
        }
}

void mcp_wait_begin(struct mcp_call *call, const struct run_arguments *arguments)
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

/* ---- results that no request waits for ---- */

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

void mcp_wait_keep(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
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
                bool runs = call->cell && (call->cell->number != 0 || call->wait.unattended);

                if (call->principal == principal && !call->run && !call->cancelled &&
                    !call->answer && (kept ? call->suspension.has_outcome : runs) &&
                    strcmp(call->session, session) == 0)
                        return call;
        }
        return NULL;
}

static int append_kept(struct mcp_call *call, struct buffer *to)
{
        struct cell_outcome *outcome = &call->suspension.outcome;
        struct resource_uri uris[CELL_STREAMS];
        struct result_options options = {
                .session = call->session, .max_output = EARLIER_CHARACTERS, .kinds = call->kinds};

        mcp_wait_options(call, &options);
        options.said = "of the call that was left while its code ran";
        mcp_whole_name(call->session, call->suspension.number, outcome, uris, &options);
        int r = result_render_text(outcome, &options, to);
        mcp_whole_keep(call, &options, outcome);
        return r;
}

void mcp_wait_take_earlier(struct mcp_call *call, struct buffer *to)
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

void mcp_wait_options(const struct mcp_call *call, struct result_options *options)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                options->from[i] = call->wait.shown[i];
                options->was_cut[i] = call->wait.was_cut[i];
        }
        options->said = call->wait.said;
}

/* ---- calls without code ---- */

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
        mcp_wait_begin(call, arguments);
}

static void refuse(const struct mcp_request *request, const struct run_arguments *arguments,
                   struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        char key[SESSION_KEY_MAX + 1], why[CELL_WHY_MAX + 200];

        session_key_make(request->peer->principal->name, arguments->session, key);
        const struct session *session = sessions_find(server->sessions, key);
        const char *lost = session ? session_lost(session) : "";
        snprintf(why, sizeof(why),
                 "no code runs in session \"%s\", and no result of it waits%s%s: give code",
                 arguments->session, *lost ? "; its sandbox has ended: " : "", lost);
        mcp_answer_refusal(reply, "SessionError", why, arguments->session);
}

void mcp_wait_listen(const struct mcp_request *request, const struct run_arguments *arguments,
                     struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        struct mcp_principal *principal = request->peer->principal;
        struct mcp_call *call = find(server, principal, arguments->session, !arguments->interrupt);

        if (!call)
                call = find(server, principal, arguments->session, arguments->interrupt);
        if (!call) {
                refuse(request, arguments, reply);
                return;
        }
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
        else if (arguments->interrupt && call->cell->number != 0)
                cell_interrupt(call->cell);
}

void mcp_wait_interrupt(struct mcp_call *call)
{
        struct mcp_call *running = find(call->server, call->principal, call->session, false);

        if (!running || running == call || running->cell->number == 0)
                return;
        cell_interrupt(running->cell);
        snprintf(call->wait.said, sizeof(call->wait.said),
                 "the code that the session ran before was interrupted");
}
