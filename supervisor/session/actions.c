/* The actions that start, stop and finish cells, and the table of all actions. */
#include "supervisor/session/actions.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/end.h"
#include "supervisor/session/machine/catalogue.h"
#include "supervisor/session/machine/outcome.h"
#include "supervisor/session/machine/owner.h"
#include "supervisor/session/machine/profile.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/tasks.h"
#include "supervisor/session/start.h"
#include "supervisor/session/state/block.h"
#include "supervisor/session/state/branch-cells.h"
#include "supervisor/session/state/checkpoint.h"
#include "supervisor/session/state/copies.h"
#include "supervisor/session/state/restore.h"
#include "supervisor/session/state/transaction.h"

static uint64_t idle_left_ms(const struct session *s)
{
        uint64_t most = s->context->config->session_idle_ms;
        uint64_t passed = (clock_us() - s->history.used_us) / 1000;

        return passed < most ? most - passed : 0;
}

/* 0: the profile does not freeze idle sessions. */
static uint64_t freeze_ms(const struct session *s)
{
        const struct config *config = s->config ? s->config : s->context->config;
        uint64_t ms = s->profile ? s->profile->freeze_ms : config->top.freeze_ms;

        return ms < s->context->config->session_idle_ms ? ms : 0;
}

static uint64_t time_in_state_ms(const struct session *s)
{
        uint64_t left, freeze;

        switch (s->state) {
        case SESSION_IDLE:
                left = idle_left_ms(s);
                freeze = freeze_ms(s);
                if ((copies_is_due(s) || tasks_scan_is_due(s)) && left > SESSION_QUIET_MS)
                        return SESSION_QUIET_MS;
                if (freeze > 0 && freeze < left)
                        return freeze;
                return left > 0 ? left : 1;
        case SESSION_KEEPING:
                if (s->transaction->state == TRANSACTION_ASKED)
                        return SESSION_SNAPSHOT_MS;
                return s->copies->asked.name[0] ? SESSION_CHECKPOINT_MS : SESSION_KEEP_MS;
        case SESSION_FREEZING:
        case SESSION_FROZEN:
                left = idle_left_ms(s);
                return left > 0 ? left : 1;
        case SESSION_SETTLING:
                return SESSION_SETTLE_MS;
        case SESSION_RUNNING:
                return s->queue.first->timeout_ms;
        case SESSION_INTERRUPTING:
                return SESSION_GRACE_MS;
        case SESSION_RESTORING:
                return SESSION_RESTORE_MS;
        case SESSION_WAKING:
                return s->copies->rolls_back ? SESSION_ROLLBACK_MS : SESSION_WAKE_MS;
        case SESSION_CLOSED:
                return SESSION_CLOSED_MS;
        default:
                return 0;
        }
}

/* ---- sending a cell ---- */

/* A cell without a file name is called by its number. */
static int complete_payload(struct cell *cell)
{
        if (buffer_bytes(&cell->payload)[cell->payload.length - 1] != '\0')
                return 0;
        int r = buffer_append_text(&cell->payload, "<cell ");
        if (r >= 0)
                r = buffer_append_number(&cell->payload, (int64_t)cell->number);
        return r < 0 ? r : buffer_append_text(&cell->payload, ">");
}

static void note_start(struct session *s, struct cell *cell)
{
        bool fresh = session_note_owner(s, cell);

        cell->outcome.state = fresh ? CELL_STATE_NEW : CELL_STATE_KEPT;
        if (fresh)
                snprintf(cell->outcome.before, sizeof(cell->outcome.before), "%s", s->lost);
        if (!cell->is_owners) {
                s->lost[0] = '\0';
                copies_note(s, cell);
        }
        s->transaction->state = cell->rolls_back ? TRANSACTION_RUNNING : TRANSACTION_NONE;
        bool has_copy = s->copies->asked_after == s->queue.last_number;
        session_number_cell(s);
        if (cell->is_probe) {
                s->copies->asked_after = has_copy ? s->queue.last_number : s->copies->asked_after;
                return;
        }
        outcome_note_start(s, cell);
        const struct log_ids ids = session_log_ids(s, cell);
        log_event(LOG_LEVEL_DEBUG, &ids, "cell begins");
}

static uint8_t frame_of(const struct cell *cell)
{
        return cell->is_probe ? FRAME_PROBE : cell->check_only ? FRAME_CHECK : FRAME_EXEC;
}

static int send_code(struct session *s, struct cell *cell)
{
        struct channel *c = &s->channel;

        int r = complete_payload(cell);
        if (r >= 0 && cell_is_published(cell))
                r = channel_send(c, FRAME_INPUT, cell->number, buffer_bytes(&cell->input),
                                 cell->input.length);
        if (r >= 0 && cell->script.length > 0)
                r = channel_send(c, FRAME_SCRIPT, cell->number, buffer_bytes(&cell->script),
                                 cell->script.length);
        if (r >= 0 && cell->needs.length > 0 && !cell->check_only)
                r = channel_send(c, FRAME_NEED, cell->number, buffer_bytes(&cell->needs),
                                 cell->needs.length);
        if (r >= 0)
                r = channel_send(c, frame_of(cell), cell->number, buffer_bytes(&cell->payload),
                                 cell->payload.length);
        outcome_begin(s, cell);
        cell->sent_as = c->queued;
        cell->attempts++;
        if (s->history.n_run > 1 || cell->is_probe)
                buffer_done(&cell->payload);
        return r;
}

static void code_failed(struct session *s, struct cell *cell)
{
        session_kill_sandbox(s, END_PROTOCOL,
                             "the code could not be sent: too many answers wait in the channel");
}

/* The cell counts as started in any case. */
static void start_cell(struct session *s)
{
        static const struct {
                int (*send)(struct session *s, struct cell *cell);
                void (*failed)(struct session *s, struct cell *cell);
        } kinds[] = {
                [CELL_CODE] = {send_code, code_failed},
                [CELL_DUMP] = {branch_send_dump, branch_dump_failed},
                [CELL_LOAD] = {branch_send_load, branch_load_failed},
        };
        struct cell *cell = s->queue.first;

        session_thaw(s);
        if (cell->kind == CELL_CODE)
                session_send_catalogue(s);
        note_start(s, cell);
        int r = kinds[cell->kind].send(s, cell);
        session_enter(s, SESSION_RUNNING);
        /* EVENT_CLOSED follows, which ends a cell of code. */
        if (r < 0 && (r != -ENOTCONN || cell->kind != CELL_CODE))
                kinds[cell->kind].failed(s, cell);
}

static void refuse_other_profile(struct session *s)
{
        char why[CELL_WHY_MAX];

        session_profile_refusal(s, why);
        session_refuse_cell(s, s->queue.first, CELL_ERROR, "ProfileError", why);
        session_wake(s);
}

static void run_next(struct session *s, const struct session_details *details)
{
        if (!s->queue.first && s->single)
                session_kill_sandbox(s, END_IDLE, "its call has ended");
        if (!s->queue.first)
                return;
        bool other = session_profile_is_other(s);
        if (s->queue.first->reset && (!session_is_fresh(s) || other))
                session_kill_sandbox(s, END_RESET, "");
        else if (other)
                refuse_other_profile(s);
        else if (checkpoint_prepare(s) && transaction_begin(s))
                start_cell(s);
}

static struct cell *complete_cell(struct session *s)
{
        struct cell *cell = session_current(s);

        streams_drain(&s->streams);
        block_end(s);
        outcome_alive(s, cell);
        calls_forget_unsent(s);
        outcome_take_usage(s, cell, NULL);
        s->history.used_us = clock_us();
        s->stop_status = CELL_OK;
        if (!cell->is_probe)
                s->copies->state_of = cell->number;
        return cell;
}

static void finish_cell(struct session *s, const struct session_details *details)
{
        struct cell *cell = complete_cell(s);

        if (transaction_roll_back(s, cell) || (cell->checkpoint[0] && checkpoint_make(s, cell)))
                return;
        session_enter(s, SESSION_IDLE);
        session_end_cell(s, cell);
        session_wake(s);
}

/* The interrupt, or a reminder, may have been sent after the code had ended: it must not hit the next cell. */
static void finish_interrupted(struct session *s, const struct session_details *details)
{
        struct cell *cell = complete_cell(s);

        if (transaction_roll_back(s, cell))
                return;
        if (cell->checkpoint[0])
                checkpoint_make(s, cell); /* says that there is none */
        session_enter(s, cell->outcome.interrupted && !s->is_reminded ? SESSION_IDLE
                                                                      : SESSION_SETTLING);
        session_end_cell(s, cell);
        session_wake(s);
}

static void finish_last_cell(struct session *s, const struct session_details *details)
{
        struct cell *cell = complete_cell(s);

        cell->has_result = s->copies->is_restoring;
        if (!cell->has_result)
                session_end_cell(s, cell);
}

static void stop_at_timeout(struct session *s, const struct session_details *details)
{
        session_interrupt(s, CELL_TIMEOUT);
}

static void stop_cancelled(struct session *s, const struct session_details *details)
{
        session_interrupt(s, CELL_CANCELLED);
}

static void end_uninterrupted(struct session *s, const struct session_details *details)
{
        char why[CELL_WHY_MAX];

        if (restore_newest(s))
                return;
        outcome_describe_stop(s, s->queue.first, why);
        session_kill_sandbox(s, s->stop_status == CELL_TIMEOUT ? END_TIMEOUT : END_CANCELLED, why);
}

/* The worker, or the copy, does not do what it must. */
static void end_unrestored(struct session *s, const struct session_details *details)
{
        copies_forget_all(s);
        if (s->copies->back == BACK_NOT && !s->queue.first->has_result)
                end_uninterrupted(s, details);
        else
                restore_give_up(s, details);
}

static void kill_cancelled(struct session *s, const struct session_details *details)
{
        session_kill_sandbox(s, END_CANCELLED, "the call was cancelled");
}

/* ---- a copy that was woken ---- */

/* The copy that was woken has ended. Its frames are handled first: it may have been the worker already, and the
 * session's state is another one then. */
static void take_cleared_again(struct session *s, const struct session_details *details)
{
        channel_drain(&s->channel);
        if (s->state == SESSION_WAKING)
                restore_take_cleared(s, details);
        else
                session_dispatch_fds(s, EVENT_CLEARED, details, SESSION_COUNTERS);
}

static void finish_woken(struct session *s, const struct session_details *details)
{
        channel_drain(&s->channel);
        if (s->state == SESSION_WAKING)
                session_finish(s, details);
        else
                session_dispatch(s, EVENT_ENDED, details);
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

/* A session with a tool call or a pending file request, in the middle of a frame, or a checkpoint of which
 * is written for a branch, is not frozen.
 */
static void rest(struct session *s, const struct session_details *details)
{
        bool scans = tasks_scan_is_due(s);

        if (scans)
                tasks_scan(s);
        if (copies_is_due(s) && idle_left_ms(s) > 0) {
                copies_keep(s, "");
        } else if (!scans && (freeze_ms(s) == 0 || idle_left_ms(s) == 0)) {
                drop_idle(s, details);
        } else if (scans || s->calls->n > 0 || s->files->n > 0 ||
                   channel_is_receiving(&s->channel) || s->branched_until_us > clock_us()) {
                session_enter(s, SESSION_IDLE);
        } else {
                sandbox_request(&s->context->requests, MONITOR_SESSION_FREEZE, s->target, 0);
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
        sandbox_request(&s->context->requests, MONITOR_SESSION_THAW, s->target, 0);
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

const struct session_table session_table = {
        .time_in_state = time_in_state_ms,
        .actions = {
                [SESSION_NONE] = {[EVENT_WAKE] = start_get_sandbox},
                [SESSION_QUEUED] = {[EVENT_PLACE] = start_again},
                [SESSION_CREATING] = {[EVENT_STARTED] = start_take,
                                      [EVENT_FAILED] = start_failed,
                                      [EVENT_OWNER_END] = start_discard_later},
                [SESSION_DISCARDING] =
                        {[EVENT_STARTED] = start_discard, [EVENT_FAILED] = start_failed},
                [SESSION_IDLE] = {[EVENT_WAKE] = run_next,
                                  [EVENT_BACK] = restore_go_back,
                                  [EVENT_TIMER] = rest,
                                  [EVENT_COPY] = idle_on,
                                  [EVENT_CLOSED] = note_closed,
                                  [EVENT_OWNER_END] = kill_for_owner,
                                  [EVENT_ENDED] = session_drain_and_finish,
                                  [EVENT_CLEARED] = restore_take_cleared},
                [SESSION_KEEPING] = {[EVENT_COPY] = copies_leave_keeping,
                                     [EVENT_TIMER] = copies_give_up_keeping,
                                     [EVENT_CLEARED] = restore_take_cleared,
                                     [EVENT_CLOSED] = note_closed,
                                     [EVENT_OWNER_END] = kill_for_owner,
                                     [EVENT_ENDED] = session_drain_and_finish},
                [SESSION_FREEZING] = {[EVENT_WAKE] = run_next,
                                      [EVENT_BACK] = restore_go_back,
                                      [EVENT_FROZEN] = note_frozen,
                                      [EVENT_NEEDED] = thaw,
                                      [EVENT_TIMER] = drop_idle,
                                      [EVENT_CLOSED] = note_closed,
                                      [EVENT_OWNER_END] = kill_for_owner,
                                      [EVENT_ENDED] = session_drain_and_finish,
                                      [EVENT_CLEARED] = restore_take_cleared},
                [SESSION_FROZEN] = {[EVENT_WAKE] = run_next,
                                    [EVENT_BACK] = restore_go_back,
                                    [EVENT_NEEDED] = thaw,
                                    [EVENT_TIMER] = drop_idle,
                                    [EVENT_CLOSED] = note_closed,
                                    [EVENT_OWNER_END] = kill_for_owner,
                                    [EVENT_ENDED] = session_drain_and_finish,
                                    [EVENT_CLEARED] = restore_take_cleared},
                [SESSION_SETTLING] = {[EVENT_TIMER] = settle,
                                      [EVENT_CLOSED] = note_closed,
                                      [EVENT_OWNER_END] = kill_for_owner,
                                      [EVENT_ENDED] = session_drain_and_finish,
                                      [EVENT_CLEARED] = restore_take_cleared},
                [SESSION_RUNNING] = {[EVENT_RESULT] = finish_cell,
                                     [EVENT_COPY] = block_retry,
                                     [EVENT_BACK] = restore_go_back,
                                     [EVENT_TIMER] = stop_at_timeout,
                                     [EVENT_CANCEL] = stop_cancelled,
                                     [EVENT_KILL] = kill_cancelled,
                                     [EVENT_CLOSED] = note_closed,
                                     [EVENT_OWNER_END] = kill_for_owner,
                                     [EVENT_ENDED] = session_drain_and_finish,
                                     [EVENT_CLEARED] = restore_take_cleared},
                [SESSION_INTERRUPTING] = {[EVENT_RESULT] = finish_interrupted,
                                          [EVENT_COPY] = block_retry,
                                          [EVENT_BACK] = restore_go_back,
                                          [EVENT_TIMER] = end_uninterrupted,
                                          [EVENT_KILL] = kill_cancelled,
                                          [EVENT_CLOSED] = note_closed,
                                          [EVENT_OWNER_END] = kill_for_owner,
                                          [EVENT_ENDED] = session_drain_and_finish,
                                          [EVENT_CLEARED] = restore_take_cleared},
                [SESSION_RESTORING] = {[EVENT_TIMER] = end_unrestored,
                                       [EVENT_COPY] = block_retry,
                                       [EVENT_GONE] = restore_cannot_go_back,
                                       [EVENT_KILL] = kill_cancelled,
                                       [EVENT_CLEARED] = restore_take_cleared,
                                       [EVENT_CLOSED] = note_closed,
                                       [EVENT_OWNER_END] = kill_for_owner,
                                       [EVENT_ENDED] = session_drain_and_finish},
                [SESSION_WAKING] = {[EVENT_RESTORED] = restore_take_restored,
                                    [EVENT_TIMER] = restore_give_up,
                                    [EVENT_KILL] = restore_give_up,
                                    [EVENT_CLOSED] = kill_closed,
                                    [EVENT_OWNER_END] = kill_for_owner,
                                    [EVENT_CLEARED] = take_cleared_again,
                                    [EVENT_ENDED] = finish_woken},
                [SESSION_CLOSED] = {[EVENT_TIMER] = kill_closed, [EVENT_ENDED] = session_finish},
                [SESSION_KILLING] = {[EVENT_ENDED] = session_finish},
                [SESSION_DRAINING] = {[EVENT_RESULT] = finish_last_cell},
        }};
