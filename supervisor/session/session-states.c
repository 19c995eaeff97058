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
 *     running ──timer, cancel──► interrupting ──timer (SESSION_GRACE_MS)──► killing. Meanwhile the worker is
 *         reminded: Python does not notice a signal that comes just before it waits in a system call
 *     idle ──timer──► freezing ──frozen──► frozen; the next cell or file request thaws it
 *     channel ends ──► closed: the monitor reports a dead worker within SESSION_CLOSED_MS; else the
 *         code has closed the channel, and the sandbox is killed
 *     the monitor reports the end ──► draining ──► none, in one go
 *     idle ──timer (SESSION_QUIET_MS)──► keeping ──the copy is made──► idle
 *     interrupting ──timer──► restoring, if there is a copy
 *     idle, running ──back──► restoring, to a checkpoint or by undo()
 *     running ──result──► keeping, if the cell asks for a checkpoint; the cell ends with that state
 *     running, interrupting ──back──► restoring, by a block that has failed; from waking it goes back there
 *     the monitor reports the end of the worker ──► draining ──► waking ──restored──► keeping
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
#include "supervisor/session/outcome.h"
#include "supervisor/session/profile.h"
#include "supervisor/session/session-internal.h"
#include "supervisor/session/streams.h"

static const char *const state_names[] = {
        [SESSION_NONE] = "not there",
        [SESSION_QUEUED] = "being made",
        [SESSION_CREATING] = "being made",
        [SESSION_DISCARDING] = "being made",
        [SESSION_IDLE] = "idle",
        [SESSION_KEEPING] = "idle",
        [SESSION_FREEZING] = "idle",
        [SESSION_FROZEN] = "frozen",
        [SESSION_SETTLING] = "idle",
        [SESSION_RUNNING] = "running",
        [SESSION_INTERRUPTING] = "being interrupted",
        [SESSION_RESTORING] = "being restored",
        [SESSION_WAKING] = "being restored",
        [SESSION_CLOSED] = "ending",
        [SESSION_KILLING] = "ending",
        [SESSION_DRAINING] = "ending",
};
static_assert(ARRAY_SIZE(state_names) == SESSION_STATE_MAX, "a name for each state");

const char *session_state_name(enum session_state state)
{
        return state_names[state];
}

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
                if ((session_copy_is_due(s) || session_look_is_due(s)) && left > SESSION_QUIET_MS)
                        return SESSION_QUIET_MS;
                if (freeze > 0 && freeze < left)
                        return freeze;
                return left > 0 ? left : 1;
        case SESSION_KEEPING:
                if (s->transaction.state == TRANSACTION_ASKED)
                        return SESSION_SNAPSHOT_MS;
                return s->copy.asked.name[0] ? SESSION_CHECKPOINT_MS : SESSION_KEEP_MS;
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
        case SESSION_RESTORING:
                return SESSION_RESTORE_MS;
        case SESSION_WAKING:
                return s->copy.rolls_back ? SESSION_ROLLBACK_MS : SESSION_WAKE_MS;
        case SESSION_CLOSED:
                return SESSION_CLOSED_MS;
        default:
                return 0;
        }
}

/* before: the state that it leaves. */
static void watch_interrupt(struct session *s, enum session_state before)
{
        const struct timeval period = clock_timeval_ms(SESSION_REMIND_MS);

        if (s->state == SESSION_INTERRUPTING)
                event_add(s->remind, &period);
        else if (before == SESSION_INTERRUPTING)
                event_del(s->remind);
}

void session_remind(struct session *s)
{
        s->is_reminded = true;
        s->context->requests.interrupt(s->context->requests.data, s->target, true);
}

void session_enter(struct session *s, enum session_state state)
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
        watch_interrupt(s, before);
        s->context->owner.state_changed(s->context->owner.data, s, before);
}

/* Whether the session's timer is the time of this cell. */
static bool is_timed(const struct session *s, const struct cell *cell)
{
        return s->state == SESSION_RUNNING && s->cells == cell && cell->timeout_ms > 0;
}

void session_pause_cell(struct session *s)
{
        struct cell *cell = session_current(s);
        uint64_t now = clock_us();

        if (cell)
                cell->stopped_since_us = is_timed(s, cell) ? now : 0;
        if (cell && is_timed(s, cell) && (cell->held == 0 || cell->held_since_us == 0))
                s->left_us = s->due_us > now ? s->due_us - now : 0;
}

/* Code could have its blocks rolled back for ever: what is above the most that a cell gets counts. */
static void count_stopped(struct session *s, struct cell *cell)
{
        uint64_t most = (cell->timeout_ms > SESSION_STOPPED_MS ? cell->timeout_ms
                                                               : SESSION_STOPPED_MS) *
                        UINT64_C(1000);
        uint64_t now = clock_us(), before = cell->stopped_us > most ? cell->stopped_us : most;

        if (cell->stopped_since_us == 0)
                return;
        cell->stopped_us += now - cell->stopped_since_us;
        cell->stopped_since_us = 0;
        uint64_t above = cell->stopped_us > before ? cell->stopped_us - before : 0;
        s->left_us = s->left_us > above ? s->left_us - above : 0;
}

/* A cell that was interrupted before gets its grace again, and one that was cancelled meanwhile is
 * interrupted now. */
void session_resume_cell(struct session *s)
{
        struct cell *cell = s->cells;

        count_stopped(s, cell);
        uint64_t left = s->left_us > 0 ? s->left_us : 1;
        struct timeval t = clock_timeval_ms(left / 1000);
        session_enter(s, s->stop_status == CELL_OK ? SESSION_RUNNING : SESSION_INTERRUPTING);
        if (is_timed(s, cell) && cell->held > 0 && cell->held_since_us > 0) {
                evtimer_del(s->timer);
        } else if (is_timed(s, cell)) {
                s->due_us = clock_us() + left;
                evtimer_add(s->timer, &t);
        }
        channel_resume(&s->channel);
        if (cell->cancelled)
                session_dispatch(s, EVENT_CANCEL, NULL);
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
void session_kill_sandbox(struct session *s, enum session_end end, const char *why)
{
        s->end = end;
        snprintf(s->why, sizeof(s->why), "%s", why);
        session_enter(s, SESSION_KILLING);
        s->context->requests.kill(s->context->requests.data, s->target);
}

static void interrupt(struct session *s, enum cell_status status)
{
        s->stop_status = status;
        s->cells->attempts = CELL_ATTEMPTS_MAX; /* its time is over */
        s->is_reminded = false;
        session_enter(s, SESSION_INTERRUPTING);
        s->context->requests.interrupt(s->context->requests.data, s->target, false);
}

/* ---- cells ---- */

static void start_cell(struct session *s)
{
        session_thaw(s);
        int r = session_send_cell(s);
        session_enter(s, SESSION_RUNNING);
        if (r < 0 && s->cells->kind != CELL_CODE)
                session_branch_failed(s, s->cells);
        else if (r < 0 && r != -ENOTCONN)
                session_kill_sandbox(
                        s, END_PROTOCOL,
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
                session_kill_sandbox(s, END_IDLE, "its call has ended");
        if (!s->cells)
                return;
        bool other = session_profile_is_other(s);
        if (s->cells->reset && (!session_is_fresh(s) || other))
                session_kill_sandbox(s, END_RESET, "");
        else if (other)
                refuse_other_profile(s);
        else if (session_is_prepared(s) && session_begin_transaction(s))
                start_cell(s);
}

struct cell *session_complete_cell(struct session *s)
{
        struct cell *cell = session_current(s);

        streams_drain(s);
        session_end_block(s);
        outcome_alive(s, cell);
        outcome_take_usage(s, cell, NULL);
        s->used_us = clock_us();
        s->stop_status = CELL_OK;
        if (!cell->is_probe)
                s->state_of = cell->number;
        return cell;
}

static void finish_cell(struct session *s, const struct session_details *details)
{
        struct cell *cell = session_complete_cell(s);

        if (session_roll_back(s, cell) || (cell->checkpoint[0] && session_make_checkpoint(s, cell)))
                return;
        session_enter(s, SESSION_IDLE);
        session_end_cell(s, cell);
        session_wake(s);
}

/* The interrupt, or a reminder, may have been sent after the code had ended: it must not hit the next cell. */
static void finish_interrupted(struct session *s, const struct session_details *details)
{
        struct cell *cell = session_complete_cell(s);

        if (session_roll_back(s, cell))
                return;
        if (cell->checkpoint[0])
                session_make_checkpoint(s, cell); /* says that there is none */
        session_enter(s, cell->outcome.interrupted && !s->is_reminded ? SESSION_IDLE
                                                                      : SESSION_SETTLING);
        session_end_cell(s, cell);
        session_wake(s);
}

static void finish_last_cell(struct session *s, const struct session_details *details)
{
        struct cell *cell = session_complete_cell(s);

        cell->has_result = s->copy.is_restoring;
        if (!cell->has_result)
                session_end_cell(s, cell);
}

static void stop_at_timeout(struct session *s, const struct session_details *details)
{
        interrupt(s, CELL_TIMEOUT);
}

static void stop_cancelled(struct session *s, const struct session_details *details)
{
        interrupt(s, CELL_CANCELLED);
}

static void end_uninterrupted(struct session *s, const struct session_details *details)
{
        char why[CELL_WHY_MAX];

        if (session_restore_newest(s))
                return;
        outcome_describe_stop(s, s->cells, why);
        session_kill_sandbox(s, s->stop_status == CELL_TIMEOUT ? END_TIMEOUT : END_CANCELLED, why);
}

/* The worker, or the copy, does not do what it must. */
static void end_unrestored(struct session *s, const struct session_details *details)
{
        session_forget_copies(s);
        if (s->copy.back == BACK_NOT && !s->cells->has_result)
                end_uninterrupted(s, details);
        else
                session_give_up_restore(s, details);
}

static void kill_cancelled(struct session *s, const struct session_details *details)
{
        session_kill_sandbox(s, END_CANCELLED, "the call was cancelled");
}

/* ---- idle sessions ---- */

static void settle(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_IDLE);
        session_wake(s);
}

/* A late answer about a copy: the next one is due now, and the time in this state was that of a session
 * for which none is. */
static void idle_on(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_IDLE);
}

static void drop_idle(struct session *s, const struct session_details *details)
{
        char why[CELL_WHY_MAX], text[32];

        snprintf(why, sizeof(why), "it had been idle for %s",
                 outcome_seconds(s->context->config->session_idle_ms, text));
        session_kill_sandbox(s, END_IDLE, why);
}

/* A session with a tool call or a file request under way, in the middle of a frame, or a checkpoint of which
 * is written for a branch, is not frozen.
 */
static void rest(struct session *s, const struct session_details *details)
{
        bool looks = session_look_is_due(s);

        if (looks)
                session_look(s);
        if (session_copy_is_due(s) && idle_left_ms(s) > 0) {
                session_ask_copy(s, "");
        } else if (!looks && (freeze_ms(s) == 0 || idle_left_ms(s) == 0)) {
                drop_idle(s, details);
        } else if (looks || s->calls.n > 0 || s->files.n > 0 || channel_is_receiving(&s->channel) ||
                   s->branched_until_us > clock_us()) {
                session_enter(s, SESSION_IDLE);
        } else {
                s->context->requests.freeze(s->context->requests.data, s->target, true);
                session_enter(s, SESSION_FREEZING);
        }
}

static void note_frozen(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_FROZEN);
}

/* The monitor handles requests in their order, so nothing waits for the thaw: the worker reads what
 * it was sent once it runs again. */
static void thaw(struct session *s, const struct session_details *details)
{
        s->context->requests.freeze(s->context->requests.data, s->target, false);
        session_enter(s, SESSION_IDLE);
}

/* ---- the end ---- */

static void note_closed(struct session *s, const struct session_details *details)
{
        char why[CELL_WHY_MAX];

        if (!error_is_set(details->error)) {
                s->stop_status = CELL_OK;
                session_enter(s, SESSION_CLOSED);
                return;
        }
        snprintf(why, sizeof(why), "the code broke Cloister's channel: %s", details->error->text);
        session_kill_sandbox(s, END_PROTOCOL, why);
}

static void kill_closed(struct session *s, const struct session_details *details)
{
        session_kill_sandbox(s, END_CLOSED, OUTCOME_CLOSED);
}

static void kill_for_owner(struct session *s, const struct session_details *details)
{
        session_kill_sandbox(s, END_OWNER, SESSION_ENDED_BY_OWNER);
}

/* ---- the table ---- */

static void (*const actions[SESSION_STATE_MAX][SESSION_EVENT_MAX])(
        struct session *s, const struct session_details *details) = {
        [SESSION_NONE] = {[EVENT_WAKE] = session_get_sandbox},
        [SESSION_QUEUED] = {[EVENT_PLACE] = session_get_sandbox_again},
        [SESSION_CREATING] = {[EVENT_STARTED] = session_take_sandbox,
                              [EVENT_FAILED] = session_note_failure,
                              [EVENT_OWNER_END] = session_discard_when_made},
        [SESSION_DISCARDING] =
                {[EVENT_STARTED] = session_discard_sandbox, [EVENT_FAILED] = session_note_failure},
        [SESSION_IDLE] = {[EVENT_WAKE] = run_next,
                          [EVENT_BACK] = session_go_back,
                          [EVENT_TIMER] = rest,
                          [EVENT_COPY] = idle_on,
                          [EVENT_CLOSED] = note_closed,
                          [EVENT_OWNER_END] = kill_for_owner,
                          [EVENT_ENDED] = session_drain_and_bury,
                          [EVENT_CLEARED] = session_take_cleared},
        [SESSION_KEEPING] = {[EVENT_COPY] = session_leave_keeping,
                             [EVENT_TIMER] = session_give_up_keeping,
                             [EVENT_CLEARED] = session_take_cleared,
                             [EVENT_CLOSED] = note_closed,
                             [EVENT_OWNER_END] = kill_for_owner,
                             [EVENT_ENDED] = session_drain_and_bury},
        [SESSION_FREEZING] = {[EVENT_WAKE] = run_next,
                              [EVENT_BACK] = session_go_back,
                              [EVENT_FROZEN] = note_frozen,
                              [EVENT_NEEDED] = thaw,
                              [EVENT_TIMER] = drop_idle,
                              [EVENT_CLOSED] = note_closed,
                              [EVENT_OWNER_END] = kill_for_owner,
                              [EVENT_ENDED] = session_drain_and_bury,
                              [EVENT_CLEARED] = session_take_cleared},
        [SESSION_FROZEN] = {[EVENT_WAKE] = run_next,
                            [EVENT_BACK] = session_go_back,
                            [EVENT_NEEDED] = thaw,
                            [EVENT_TIMER] = drop_idle,
                            [EVENT_CLOSED] = note_closed,
                            [EVENT_OWNER_END] = kill_for_owner,
                            [EVENT_ENDED] = session_drain_and_bury,
                            [EVENT_CLEARED] = session_take_cleared},
        [SESSION_SETTLING] = {[EVENT_TIMER] = settle,
                              [EVENT_CLOSED] = note_closed,
                              [EVENT_OWNER_END] = kill_for_owner,
                              [EVENT_ENDED] = session_drain_and_bury,
                              [EVENT_CLEARED] = session_take_cleared},
        [SESSION_RUNNING] = {[EVENT_RESULT] = finish_cell,
                             [EVENT_BACK] = session_go_back,
                             [EVENT_TIMER] = stop_at_timeout,
                             [EVENT_CANCEL] = stop_cancelled,
                             [EVENT_KILL] = kill_cancelled,
                             [EVENT_CLOSED] = note_closed,
                             [EVENT_OWNER_END] = kill_for_owner,
                             [EVENT_ENDED] = session_drain_and_bury,
                             [EVENT_CLEARED] = session_take_cleared},
        [SESSION_INTERRUPTING] = {[EVENT_RESULT] = finish_interrupted,
                                  [EVENT_BACK] = session_go_back,
                                  [EVENT_TIMER] = end_uninterrupted,
                                  [EVENT_KILL] = kill_cancelled,
                                  [EVENT_CLOSED] = note_closed,
                                  [EVENT_OWNER_END] = kill_for_owner,
                                  [EVENT_ENDED] = session_drain_and_bury,
                                  [EVENT_CLEARED] = session_take_cleared},
        [SESSION_RESTORING] = {[EVENT_TIMER] = end_unrestored,
                               [EVENT_GONE] = session_cannot_go_back,
                               [EVENT_KILL] = kill_cancelled,
                               [EVENT_CLEARED] = session_take_cleared,
                               [EVENT_CLOSED] = note_closed,
                               [EVENT_OWNER_END] = kill_for_owner,
                               [EVENT_ENDED] = session_drain_and_bury},
        [SESSION_WAKING] = {[EVENT_RESTORED] = session_take_restored,
                            [EVENT_TIMER] = session_give_up_restore,
                            [EVENT_KILL] = session_give_up_restore,
                            [EVENT_CLOSED] = kill_closed,
                            [EVENT_OWNER_END] = kill_for_owner,
                            [EVENT_CLEARED] = session_take_cleared_again,
                            [EVENT_ENDED] = session_bury_woken},
        [SESSION_CLOSED] = {[EVENT_TIMER] = kill_closed, [EVENT_ENDED] = session_bury},
        [SESSION_KILLING] = {[EVENT_ENDED] = session_bury},
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
