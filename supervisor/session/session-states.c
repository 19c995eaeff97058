/*
 * The state machine of a session.
 *
 * Theory of operation
 *
 * Everything happens in the event loop: a cell is queued or cancelled, the monitor answers, a frame
 * arrives, the timer fires, the channel ends. Each of these is an event; the table `actions` says
 * what a state does with it, and an event without an action is ignored. A cell's done() is never
 * called from inside a function that its owner called: session_push() and cell_cancel() post
 * EVENT_WAKE, which the loop handles later.
 *
 *     none ──wake──► creating ──started──► idle ──wake──► running ──result──► idle
 *     running ──timer, cancel──► interrupting ──timer (SESSION_GRACE_MS)──► killing
 *     idle ──timer──► freezing ──frozen──► frozen; the next cell or file request thaws it
 *     channel ends ──► closed: the monitor reports a dead worker within SESSION_CLOSED_MS; else the
 *         code has closed the channel, and the sandbox is killed
 *     the monitor reports the end ──► draining ──► none, in one go
 *
 * outcome.c decides how a cell ended.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/session/cell-client.h"
#include "supervisor/session/frame-table.h"
#include "supervisor/session/outcome.h"
#include "supervisor/session/profile.h"
#include "supervisor/session/session-internal.h"
#include "supervisor/session/streams.h"

static const char *const state_names[] = {
        [SESSION_NONE] = "not there",      [SESSION_QUEUED] = "being made",
        [SESSION_CREATING] = "being made", [SESSION_DISCARDING] = "being made",
        [SESSION_IDLE] = "idle",           [SESSION_FREEZING] = "idle",
        [SESSION_FROZEN] = "frozen",       [SESSION_SETTLING] = "idle",
        [SESSION_RUNNING] = "running",     [SESSION_INTERRUPTING] = "being interrupted",
        [SESSION_CLOSED] = "ending",       [SESSION_KILLING] = "ending",
        [SESSION_DRAINING] = "ending",
};
static_assert(ARRAY_SIZE(state_names) == SESSION_STATE_MAX, "a name for each state");

const char *session_state_name(enum session_state state)
{
        return state_names[state];
}

#define ENDED_BY_OWNER "its owner ended it with 'cloister sessions'"

/* ---- states ---- */

static uint64_t idle_left_ms(const struct session *s)
{
        uint64_t most = s->context->config->session_idle_ms;
        uint64_t passed = (clock_us() - s->used_us) / 1000;

        return passed < most ? most - passed : 0;
}

/* 0: the profile does not freeze idle sessions. */
static uint64_t freeze_ms(const struct session *s)
{
        const struct config *config = s->config ? s->config : s->context->config;
        uint64_t ms = s->profile ? s->profile->freeze_ms : config->top.freeze_ms;

        return ms < s->context->config->session_idle_ms ? ms : 0;
}

/* How long a session may be in its state before EVENT_TIMER; 0: for ever. */
static uint64_t time_in_state_ms(const struct session *s)
{
        uint64_t left, freeze;

        switch (s->state) {
        case SESSION_IDLE:
                left = idle_left_ms(s);
                freeze = freeze_ms(s);
                if (freeze > 0 && freeze < left)
                        return freeze;
                return left > 0 ? left : 1;
        case SESSION_FREEZING:
        case SESSION_FROZEN:
                left = idle_left_ms(s);
                return left > 0 ? left : 1;
        case SESSION_SETTLING:
                return SESSION_SETTLE_MS;
        case SESSION_RUNNING:
                return s->cells->timeout_ms;
        case SESSION_INTERRUPTING:
                return SESSION_GRACE_MS;
        case SESSION_CLOSED:
                return SESSION_CLOSED_MS;
        default:
                return 0;
        }
}

static void enter(struct session *s, enum session_state state)
{
        enum session_state before = s->state;

        s->state = state;
        uint64_t ms = time_in_state_ms(s);
        struct timeval t = clock_timeval_ms(ms);
        s->due_us = clock_us() + ms * 1000;
        if (ms > 0)
                evtimer_add(s->timer, &t);
        else
                evtimer_del(s->timer);
        s->context->owner.state_changed(s->context->owner.data, s, before);
}

/* Whether the session's timer is the time of this cell. */
static bool is_timed(const struct session *s, const struct cell *cell)
{
        return s->state == SESSION_RUNNING && s->cells == cell && cell->timeout_ms > 0;
}

void cell_hold(struct cell *cell)
{
        struct session *s = cell->session;
        uint64_t now = clock_us();

        if (cell->held++ > 0)
                return;
        cell->held_since_us = 0;
        if (!is_timed(s, cell) || cell->held_us > CELL_HELD_MAX_MS * UINT64_C(1000))
                return;
        cell->held_since_us = now;
        s->left_us = s->due_us > now ? s->due_us - now : 0;
        evtimer_del(s->timer);
}

void cell_release(struct cell *cell)
{
        struct session *s = cell->session;
        struct timeval t = clock_timeval_ms(s->left_us / 1000);
        uint64_t now = clock_us();

        if (--cell->held > 0 || cell->held_since_us == 0)
                return;
        cell->held_us += now - cell->held_since_us;
        if (!is_timed(s, cell))
                return;
        s->due_us = now + s->left_us;
        evtimer_add(s->timer, &t);
}

/* EVENT_ENDED follows. */
static void kill_sandbox(struct session *s, enum session_end end, const char *why)
{
        s->end = end;
        snprintf(s->why, sizeof(s->why), "%s", why);
        enter(s, SESSION_KILLING);
        s->context->requests.kill(s->context->requests.data, s->target);
}

static void interrupt(struct session *s, enum cell_status status)
{
        s->stop_status = status;
        s->cells->attempts = CELL_ATTEMPTS_MAX; /* its time is over */
        enter(s, SESSION_INTERRUPTING);
        s->context->requests.interrupt(s->context->requests.data, s->target);
}

/* ---- getting a sandbox ---- */

/* No sandbox can be made: the cell that has waited longest ends. */
static void refuse_first(struct session *s, const char *why)
{
        s->restart = false;
        if (s->cells)
                session_refuse_cell(s, s->cells, CELL_ERROR, "SandboxError", why);
        session_wake(s);
}

static void on_closed(void *data, const struct error *error)
{
        session_dispatch(data, EVENT_CLOSED, &(struct session_details){.error = error});
}

static int on_frame(void *data, const struct frame_header *header, struct frame_body *body,
                    struct error *err)
{
        return frame_dispatch(data, header, body, err);
}

static bool may_take(void *data)
{
        const struct session *s = data;

        return s->state == SESSION_DRAINING || !calls_full(&s->calls);
}

/* Takes ownership of the descriptors. */
static int attach(struct session *s, uint32_t target, const int fds[SESSION_FDS], struct error *err)
{
        const struct channel_owner owner = {
                .data = s, .frame = on_frame, .may_take = may_take, .closed = on_closed};
        const struct log_ids ids = session_log_ids(s, NULL);

        log_event(LOG_LEVEL_INFO, &ids, "sandbox %u is up", target);
        s->target = target;
        s->cpu_fd = fds[SESSION_CPU];
        s->peak_fd = fds[SESSION_MEMORY_PEAK];
        s->memory_fd = fds[SESSION_MEMORY];
        s->n_run = 0;
        s->born_us = s->used_us = clock_us();
        enter(s, SESSION_IDLE);
        int r = streams_open(s, fds[SESSION_STDOUT], fds[SESSION_STDERR], err);
        if (r < 0)
                close(fds[SESSION_RPC]);
        else
                r = channel_open(&s->channel, s->context->base, fds[SESSION_RPC], &owner, err);
        if (r >= 0)
                charge_open(&s->channel.kept, s->share);
        return r;
}

static void start_sandbox(struct session *s, uint32_t target, const int fds[SESSION_FDS])
{
        struct error err = {};

        s->restart = false;
        if (attach(s, target, fds, &err) < 0)
                kill_sandbox(s, END_PROTOCOL, err.text);
        else
                session_wake(s);
}

static void take_sandbox(struct session *s, const struct session_details *details)
{
        start_sandbox(s, details->target, details->fds);
}

static void discard_sandbox(struct session *s, const struct session_details *details)
{
        attach(s, details->target, details->fds, NULL);
        kill_sandbox(s, END_OWNER, ENDED_BY_OWNER);
}

static void get_sandbox(struct session *s, const struct session_details *details)
{
        const struct session_owner *owner = &s->context->owner;
        struct sandbox_offered offered = {};
        struct error err = {};

        if (!s->cells && !s->restart)
                return;
        int r = session_profile_enter(s, &err);
        if (r >= 0)
                r = owner->get_sandbox(owner->data, (size_t)r, &offered, &err);
        if (r < 0) {
                session_profile_leave(s);
                refuse_first(s, error_is_set(&err) ? err.text : strerror(-r));
                return;
        }
        if (r == SANDBOX_READY) {
                start_sandbox(s, offered.target, offered.fds);
                return;
        }
        s->serial = offered.serial;
        enter(s, r == SANDBOX_COMING ? SESSION_CREATING : SESSION_QUEUED);
}

static void get_sandbox_again(struct session *s, const struct session_details *details)
{
        session_profile_leave(s);
        enter(s, SESSION_NONE);
        session_wake(s);
}

static void note_failure(struct session *s, const struct session_details *details)
{
        s->serial = 0;
        session_profile_leave(s);
        enter(s, SESSION_NONE);
        session_drop_cancelled(s);
        if (details->error->code == ESTALE)
                session_wake(s);
        else
                refuse_first(s, details->error->text);
}

static void discard_when_made(struct session *s, const struct session_details *details)
{
        enter(s, SESSION_DISCARDING);
}

/* ---- cells ---- */

static void start_cell(struct session *s)
{
        session_thaw(s);
        int r = session_send_cell(s);
        enter(s, SESSION_RUNNING);
        if (r < 0 && r != -ENOTCONN)
                kill_sandbox(s, END_PROTOCOL,
                             "the code could not be sent: too many answers wait in the channel");
}

static void refuse_other_profile(struct session *s)
{
        char why[CELL_WHY_MAX];

        session_profile_refusal(s, why);
        session_refuse_cell(s, s->cells, CELL_ERROR, "ProfileError", why);
        session_wake(s);
}

static void run_next(struct session *s, const struct session_details *details)
{
        if (!s->cells && s->single)
                kill_sandbox(s, END_IDLE, "its call has ended");
        if (!s->cells)
                return;
        bool other = session_profile_is_other(s);
        if (s->cells->reset && (!session_is_fresh(s) || other))
                kill_sandbox(s, END_RESET, "");
        else if (other)
                refuse_other_profile(s);
        else
                start_cell(s);
}

/* Does not change the state. */
static struct cell *complete_cell(struct session *s)
{
        struct cell *cell = session_current(s);

        streams_drain(s);
        outcome_alive(s, cell);
        outcome_take_usage(s, cell, NULL);
        s->used_us = clock_us();
        s->last.status = cell->outcome.status;
        s->last.duration_us = cell->outcome.duration_us;
        s->stop_status = CELL_OK;
        return cell;
}

static void finish_cell(struct session *s, const struct session_details *details)
{
        struct cell *cell = complete_cell(s);

        enter(s, SESSION_IDLE);
        session_end_cell(s, cell);
        session_wake(s);
}

/* The interrupt may have been sent after the code had ended: it must not hit the next cell. */
static void finish_interrupted(struct session *s, const struct session_details *details)
{
        struct cell *cell = complete_cell(s);

        enter(s, cell->outcome.interrupted ? SESSION_IDLE : SESSION_SETTLING);
        session_end_cell(s, cell);
        session_wake(s);
}

static void finish_last_cell(struct session *s, const struct session_details *details)
{
        session_end_cell(s, complete_cell(s));
}

static void stop_at_timeout(struct session *s, const struct session_details *details)
{
        interrupt(s, CELL_TIMEOUT);
}

static void stop_cancelled(struct session *s, const struct session_details *details)
{
        interrupt(s, CELL_CANCELLED);
}

static void kill_uninterrupted(struct session *s, const struct session_details *details)
{
        char why[CELL_WHY_MAX];

        outcome_describe_stop(s, s->cells, why);
        kill_sandbox(s, s->stop_status == CELL_TIMEOUT ? END_TIMEOUT : END_CANCELLED, why);
}

static void kill_cancelled(struct session *s, const struct session_details *details)
{
        kill_sandbox(s, END_CANCELLED, "the call was cancelled");
}

/* ---- idle sessions ---- */

static void settle(struct session *s, const struct session_details *details)
{
        enter(s, SESSION_IDLE);
        session_wake(s);
}

static void drop_idle(struct session *s, const struct session_details *details)
{
        char why[CELL_WHY_MAX], text[32];

        snprintf(why, sizeof(why), "it had been idle for %s",
                 outcome_seconds(s->context->config->session_idle_ms, text));
        kill_sandbox(s, END_IDLE, why);
}

/* A session with a tool call or a file request under way, or in the middle of a frame, is not frozen.
 */
static void freeze_or_drop(struct session *s, const struct session_details *details)
{
        if (freeze_ms(s) == 0 || idle_left_ms(s) == 0) {
                drop_idle(s, details);
        } else if (s->calls.n > 0 || s->files.n > 0 || channel_is_receiving(&s->channel)) {
                enter(s, SESSION_IDLE);
        } else {
                s->context->requests.freeze(s->context->requests.data, s->target, true);
                enter(s, SESSION_FREEZING);
        }
}

static void note_frozen(struct session *s, const struct session_details *details)
{
        enter(s, SESSION_FROZEN);
}

/* The monitor handles requests in their order, so nothing waits for the thaw: the worker reads what
 * it was sent once it runs again. */
static void thaw(struct session *s, const struct session_details *details)
{
        s->context->requests.freeze(s->context->requests.data, s->target, false);
        enter(s, SESSION_IDLE);
}

/* ---- the end ---- */

static void note_closed(struct session *s, const struct session_details *details)
{
        char why[CELL_WHY_MAX];

        if (!error_is_set(details->error)) {
                s->stop_status = CELL_OK;
                enter(s, SESSION_CLOSED);
                return;
        }
        snprintf(why, sizeof(why), "the code broke Cloister's channel: %s", details->error->text);
        kill_sandbox(s, END_PROTOCOL, why);
}

static void kill_closed(struct session *s, const struct session_details *details)
{
        kill_sandbox(s, END_CLOSED, OUTCOME_CLOSED);
}

static void kill_for_owner(struct session *s, const struct session_details *details)
{
        kill_sandbox(s, END_OWNER, ENDED_BY_OWNER);
}

void session_forget_sandbox(struct session *s)
{
        channel_close(&s->channel);
        streams_close(s);
        calls_drop_all(&s->calls);
        int counters[] = {s->cpu_fd, s->peak_fd, s->memory_fd};
        fd_close_many(counters, ARRAY_SIZE(counters));
        s->cpu_fd = s->peak_fd = s->memory_fd = -1;
        s->peak = (struct usage_peak){};
        s->target = s->serial = 0;
        s->catalogue = 0;
        s->stop_status = CELL_OK;
        s->end = END_NONE;
        s->why[0] = '\0';
        session_profile_leave(s);
        enter(s, SESSION_NONE);
}

static void start_again(struct session *s)
{
        const struct log_ids ids = session_log_ids(s, s->cells);

        log_event(LOG_LEVEL_INFO, &ids,
                  "sandbox %u ended before it had read the cell: another one takes it", s->target);
        session_forget_sandbox(s);
        files_fail_all(s, "its sandbox has ended");
        session_wake(s);
}

static void bury(struct session *s, const struct monitor_ended *ended)
{
        struct cell_outcome none = {};

        streams_drain(s);
        if (session_take_back_cell(s)) {
                start_again(s);
                return;
        }
        struct cell *cell = session_current(s);
        const struct log_ids ids = session_log_ids(s, cell);
        struct cell_outcome *outcome = cell ? &cell->outcome : &none;
        bool reset = s->end == END_RESET;
        outcome_dead(s, ended, outcome);
        log_event(LOG_LEVEL_INFO, &ids, "sandbox %u ended: %s", s->target,
                  reset ? "reset" : outcome->why);
        if (cell) {
                outcome_take_usage(s, cell, ended);
                s->last.status = outcome->status;
                s->last.duration_us = outcome->duration_us;
        }
        snprintf(s->lost, sizeof(s->lost), "%s", reset ? "" : outcome->why);
        session_forget_sandbox(s);
        if (cell)
                session_end_cell(s, cell);
        files_fail_all(s, s->lost);
        session_wake(s);
}

/* The worker may have sent frames before it died. */
static void drain_and_bury(struct session *s, const struct session_details *details)
{
        enter(s, SESSION_DRAINING);
        channel_drain(&s->channel);
        bury(s, details->ended);
}

static void bury_killed(struct session *s, const struct session_details *details)
{
        bury(s, details->ended);
}

/* ---- the table ---- */

static void (*const actions[SESSION_STATE_MAX][SESSION_EVENT_MAX])(
        struct session *s, const struct session_details *details) = {
        [SESSION_NONE] = {[EVENT_WAKE] = get_sandbox},
        [SESSION_QUEUED] = {[EVENT_PLACE] = get_sandbox_again},
        [SESSION_CREATING] = {[EVENT_STARTED] = take_sandbox,
                              [EVENT_FAILED] = note_failure,
                              [EVENT_OWNER_END] = discard_when_made},
        [SESSION_DISCARDING] = {[EVENT_STARTED] = discard_sandbox, [EVENT_FAILED] = note_failure},
        [SESSION_IDLE] = {[EVENT_WAKE] = run_next,
                          [EVENT_TIMER] = freeze_or_drop,
                          [EVENT_CLOSED] = note_closed,
                          [EVENT_OWNER_END] = kill_for_owner,
                          [EVENT_ENDED] = drain_and_bury},
        [SESSION_FREEZING] = {[EVENT_WAKE] = run_next,
                              [EVENT_FROZEN] = note_frozen,
                              [EVENT_NEEDED] = thaw,
                              [EVENT_TIMER] = drop_idle,
                              [EVENT_CLOSED] = note_closed,
                              [EVENT_OWNER_END] = kill_for_owner,
                              [EVENT_ENDED] = drain_and_bury},
        [SESSION_FROZEN] = {[EVENT_WAKE] = run_next,
                            [EVENT_NEEDED] = thaw,
                            [EVENT_TIMER] = drop_idle,
                            [EVENT_CLOSED] = note_closed,
                            [EVENT_OWNER_END] = kill_for_owner,
                            [EVENT_ENDED] = drain_and_bury},
        [SESSION_SETTLING] = {[EVENT_TIMER] = settle,
                              [EVENT_CLOSED] = note_closed,
                              [EVENT_OWNER_END] = kill_for_owner,
                              [EVENT_ENDED] = drain_and_bury},
        [SESSION_RUNNING] = {[EVENT_RESULT] = finish_cell,
                             [EVENT_TIMER] = stop_at_timeout,
                             [EVENT_CANCEL] = stop_cancelled,
                             [EVENT_KILL] = kill_cancelled,
                             [EVENT_CLOSED] = note_closed,
                             [EVENT_OWNER_END] = kill_for_owner,
                             [EVENT_ENDED] = drain_and_bury},
        [SESSION_INTERRUPTING] = {[EVENT_RESULT] = finish_interrupted,
                                  [EVENT_TIMER] = kill_uninterrupted,
                                  [EVENT_KILL] = kill_cancelled,
                                  [EVENT_CLOSED] = note_closed,
                                  [EVENT_OWNER_END] = kill_for_owner,
                                  [EVENT_ENDED] = drain_and_bury},
        [SESSION_CLOSED] = {[EVENT_TIMER] = kill_closed, [EVENT_ENDED] = bury_killed},
        [SESSION_KILLING] = {[EVENT_ENDED] = bury_killed},
        [SESSION_DRAINING] = {[EVENT_RESULT] = finish_last_cell},
};

bool session_dispatch(struct session *s, enum session_event event,
                      const struct session_details *details)
{
        if (!actions[s->state][event])
                return false;
        actions[s->state][event](s, details);
        assert(s->state < SESSION_STATE_MAX);
        return true;
}
