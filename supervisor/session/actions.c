/* The actions: how a session gets its sandbox, runs cells and loses the sandbox; and the table of all actions. */
#include "supervisor/session/actions.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/calls/install.h"
#include "supervisor/session/calls/pictures.h"
#include "supervisor/session/cell/branch.h"
#include "supervisor/session/frame-table.h"
#include "supervisor/session/hold.h"
#include "supervisor/session/machine/injected.h"
#include "supervisor/session/machine/network.h"
#include "supervisor/session/machine/outcome.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/session-events.h"
#include "supervisor/session/machine/tasks.h"
#include "supervisor/session/state/block.h"
#include "supervisor/session/state/branch-cells.h"
#include "supervisor/session/state/copies.h"
#include "supervisor/session/state/restore.h"
#include "supervisor/session/state/transaction.h"

static uint64_t idle_ms(const struct session *s)
{
        return (clock_us() - s->history.used_us) / 1000;
}

static uint64_t idle_left_ms(const struct session *s)
{
        uint64_t most = s->context->config->session_idle_ms;
        uint64_t passed = idle_ms(s);

        return passed < most ? most - passed : 0;
}

/* 0: the profile does not freeze idle sessions. */
static uint64_t freeze_ms(const struct session *s)
{
        const struct config *config = s->config ? s->config : s->context->config;
        uint64_t ms = s->profile ? s->profile->freeze_ms : config->top.freeze_ms;

        return ms < s->context->config->session_idle_ms ? ms : 0;
}

/* Until it is due to look again whether a copy or a scan may begin. */
static uint64_t quiet_ms(const struct session *s)
{
        uint64_t passed = idle_ms(s);

        if (passed < PRINCIPAL_LATE_MS && PRINCIPAL_LATE_MS - passed < SESSION_QUIET_MS)
                return PRINCIPAL_LATE_MS - passed;
        return SESSION_QUIET_MS;
}

static uint64_t time_in_state_ms(const struct session *s)
{
        uint64_t left, freeze;

        switch (s->state) {
        case SESSION_IDLE:
                left = idle_left_ms(s);
                freeze = freeze_ms(s);
                if ((copies_is_due(s) || tasks_scan_is_due(s)) && left > SESSION_QUIET_MS)
                        return quiet_ms(s);
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
        case SESSION_SWEEPING:
                return SESSION_SWEEP_MS;
        case SESSION_SETTLING:
                return SESSION_SETTLE_MS;
        case SESSION_RUNNING:
                return s->queue.first->request.timeout_ms;
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

/* ---- getting a sandbox ---- */

static void leave_profile(struct session *s)
{
        s->profile = s->rights = NULL;
        s->config = config_free(s->config);
}

static bool has_language(const struct config_profile *profile, const struct cell *cell)
{
        return cell->request.language == LANGUAGE_MAX ||
               cell->request.language == (profile ? profile->language : LANGUAGE_PYTHON);
}

/* The profile that the call names, else that of the session's last sandbox if it has the language, else that of the call's
 * client, else the config's default. Only the first one must still exist. */
static int choose_profile(const struct session *s, struct error *err)
{
        const struct config *config = s->context->config;
        const struct cell *cell = s->queue.first;

        if (cell && cell->request.profile_asked)
                return config_find_profile(config, cell->profile, err);
        int i = s->last_profile[0] ? config_find_profile(config, s->last_profile, NULL) : -ENOENT;
        if (i >= 0 && cell && !has_language(&config->profiles[i], cell))
                i = -ENOENT;
        if (i < 0 && cell && cell->profile[0])
                i = config_find_profile(config, cell->profile, NULL);
        return i < 0 ? (int)config->profile : i;
}

/* Keeps a reference to the newest config. Returns the index of the profile in it, or -ENOENT if the call named an unknown one. */
static int enter_profile(struct session *s, struct error *err)
{
        struct config *config = s->context->config;
        int i = choose_profile(s, err);

        if (i < 0)
                return i;
        if (s->queue.first && config->n_profiles > 0 &&
            !has_language(&config->profiles[i], s->queue.first))
                return error_set(err, EINVAL, "the code is %s, and profile \"%s\" is for %s",
                                 language_names[s->queue.first->request.language],
                                 config->profiles[i].name,
                                 language_names[config->profiles[i].language]);
        s->config = config_ref(config);
        s->profile = s->rights = config->n_profiles > 0 ? &config->profiles[i] : NULL;
        snprintf(s->last_profile, sizeof(s->last_profile), "%s",
                 s->profile ? s->profile->name : "");
        return i;
}

/* No sandbox can be made: the cell that has waited longest ends. */
static void refuse_waiting(struct session *s, const char *why)
{
        s->restart = false;
        if (s->queue.first)
                session_refuse_cell(s, s->queue.first, CELL_ERROR, "SandboxError", why);
        session_wake(s);
}

static void on_closed(void *data, const struct error *error)
{
        session_dispatch(data, EVENT_CLOSED, &(struct session_details){.error = error});
}

static bool may_take(void *data)
{
        const struct session *s = data;

        return s->state == SESSION_DRAINING ||
               (s->state != SESSION_RESTORING && !calls_full(s->calls) && !pictures_are_checked(s));
}

/* Takes ownership of the descriptors. */
static int attach(struct session *s, uint32_t target, const int fds[SESSION_FDS], struct error *err)
{
        const struct channel_owner owner = {.data = s,
                                            .session = s->name,
                                            .frame = frame_dispatch,
                                            .may_take = may_take,
                                            .closed = on_closed,
                                            .takes_no_descriptors = session_is_javascript(s)};

        s->target = target;
        session_tell_start(s);
        meter_open(&s->meter, &fds[SESSION_CPU]);
        tasks_open(s, fds[SESSION_CHANGES]);
        if (!s->is_plans_copy)
                session_network_open(s);
        s->born_us = clock_us();
        outcome_open(s, s->born_us);
        session_enter(s, SESSION_IDLE);
        int r = streams_open(&s->streams, s->context->base, s->account, fds[SESSION_STDOUT],
                             fds[SESSION_STDERR], err);
        if (r < 0)
                close(fds[SESSION_RPC]);
        else
                r = channel_open(&s->channel, s->context->base, fds[SESSION_RPC], &owner, err);
        if (r >= 0)
                charge_open(&s->channel.kept, s->account);
        if (r >= 0)
                injected_tell(s);
        return r;
}

static void get_again(struct session *s, const struct session_details *details)
{
        leave_profile(s);
        session_enter(s, SESSION_NONE);
        session_wake(s);
}

/* If its call was cancelled meanwhile, the session has no sandbox: the pool gets it. */
static void take_sandbox(struct session *s, const struct session_details *details)
{
        const struct session_owner *owner = &s->context->owner;
        struct error err = {};

        if (!s->queue.first && !s->restart &&
            owner->give_back(owner->data, s, details->target, details->fds)) {
                get_again(s, NULL);
                return;
        }
        s->restart = false;
        if (attach(s, details->target, details->fds, &err) < 0)
                session_kill_sandbox(s, END_PROTOCOL, err.text);
        else
                session_wake(s);
}

static void discard_sandbox(struct session *s, const struct session_details *details)
{
        attach(s, details->target, details->fds, NULL);
        session_kill_sandbox(s, END_OWNER, SESSION_ENDED_BY_OWNER);
}

/* A cell waits, or the owner wants a sandbox: takes a spare one, or requests one. */
static void get_sandbox(struct session *s, const struct session_details *details)
{
        const struct session_owner *owner = &s->context->owner;
        struct sandbox_offered offered = {};
        struct error err = {};

        if (!s->queue.first && !s->restart)
                return;
        if (s->queue.first && s->queue.first->restore[0] && !checkpoint_prepare(s))
                return;
        int r = enter_profile(s, &err);
        if (r >= 0)
                r = owner->get_sandbox(owner->data, s, (size_t)r, &offered, &err);
        if (r < 0) {
                leave_profile(s);
                refuse_waiting(s, error_is_set(&err) ? err.text : strerror(-r));
                return;
        }
        if (r == SANDBOX_READY) {
                take_sandbox(
                        s, &(struct session_details){.target = offered.target, .fds = offered.fds});
                return;
        }
        s->serial = offered.serial;
        session_enter(s, r == SANDBOX_COMING ? SESSION_CREATING : SESSION_QUEUED);
}

static void note_failed(struct session *s, const struct session_details *details)
{
        s->serial = 0;
        leave_profile(s);
        session_enter(s, SESSION_NONE);
        session_drop_cancelled(s);
        if (details->error->code == ESTALE)
                session_wake(s);
        else
                refuse_waiting(s, details->error->text);
}

static void discard_later(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_DISCARDING);
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
        if (!cell->request.is_owners) {
                s->lost[0] = '\0';
                copies_note(s, cell);
                outcome_note_stopped(s, cell);
        }
        s->transaction->state = cell->request.rolls_back ? TRANSACTION_RUNNING : TRANSACTION_NONE;
        bool has_copy = s->copies->asked_after == s->queue.last_number;
        if (!cell->request.is_probe)
                copies_begin_cell(s, cell, !session_is_fresh(s) && !has_copy);
        session_number_cell(s);
        if (cell->request.is_probe) {
                s->copies->asked_after = has_copy ? s->queue.last_number : s->copies->asked_after;
                return;
        }
        outcome_note_start(s, cell);
        if (cell->kind == CELL_CODE)
                session_tell_cell_begin(s, cell);
}

static int send_code(struct session *s, struct cell *cell, struct error *err)
{
        uint8_t type = cell->request.is_probe     ? FRAME_PROBE
                       : cell->request.check_only ? FRAME_CHECK
                                                  : FRAME_EXEC;
        struct channel *c = &s->channel;

        int r = complete_payload(cell);
        if (r >= 0 && cell_is_published(cell))
                r = channel_send(c, FRAME_INPUT, cell->number, buffer_bytes(&cell->input),
                                 cell->input.length);
        if (r >= 0 && cell->script.length > 0)
                r = channel_send(c, FRAME_SCRIPT, cell->number, buffer_bytes(&cell->script),
                                 cell->script.length);
        if (r >= 0 && cell->request.branch > 0) {
                char number[16];
                int n = snprintf(number, sizeof(number), "%u", cell->request.branch);
                r = channel_send(c, FRAME_BRANCH, cell->number, number, (size_t)n);
        }
        if (r >= 0 && cell->needs.length > 0 && !cell->request.check_only)
                r = channel_send(c, FRAME_NEED, cell->number, buffer_bytes(&cell->needs),
                                 cell->needs.length);
        if (r >= 0)
                r = channel_send(c, type, cell->number, buffer_bytes(&cell->payload),
                                 cell->payload.length);
        outcome_begin(s, cell);
        cell->sent_as = c->queued;
        cell->attempts++;
        if (s->history.n_run > 1 || cell->request.is_probe)
                buffer_done(&cell->payload);
        return r;
}

static void code_failed(struct session *s, struct cell *cell, const struct error *err)
{
        session_kill_sandbox(s, END_PROTOCOL,
                             "the code could not be sent: too many answers wait in the channel");
}

/* The cell counts as started in any case. */
static void start_cell(struct session *s)
{
        static const struct {
                int (*send)(struct session *s, struct cell *cell, struct error *err);
                void (*failed)(struct session *s, struct cell *cell, const struct error *err);
        } kinds[] = {
                [CELL_CODE] = {send_code, code_failed},
                [CELL_DUMP] = {branch_send_dump, branch_dump_failed},
                [CELL_LOAD] = {branch_send_load, branch_load_failed},
        };
        struct cell *cell = s->queue.first;
        struct error err = {};

        session_thaw(s);
        if (cell->kind == CELL_CODE)
                session_send_catalogue(s);
        note_start(s, cell);
        int r = kinds[cell->kind].send(s, cell, &err);
        if (r < 0 && !error_is_set(&err))
                error_set(&err, -r, "%s", strerror(-r));
        session_enter(s, SESSION_RUNNING);
        /* EVENT_CLOSED follows, which ends a cell of code. */
        if (r < 0 && (r != -ENOTCONN || cell->kind != CELL_CODE))
                kinds[cell->kind].failed(s, cell, &err);
}

static bool is_other_profile(const struct session *s)
{
        return s->queue.first->request.profile_asked &&
               strcmp(s->queue.first->profile, s->profile ? s->profile->name : "") != 0;
}

static void refuse_other_profile(struct session *s)
{
        char why[CELL_WHY_MAX];

        snprintf(
                why, sizeof(why),
                "session \"%s\" lives under profile \"%s\", not \"%s\": reset: true begins it anew there, or use another session",
                session_key_name(s->name), s->profile ? s->profile->name : "default",
                s->queue.first->profile);
        session_refuse_first(s, "ProfileError", why);
}

static void refuse_other_language(struct session *s)
{
        bool is_python = s->queue.first->request.language == LANGUAGE_PYTHON;
        char why[CELL_WHY_MAX];

        snprintf(
                why, sizeof(why),
                "session \"%s\" runs %s: use %s for it, or another session; reset: true begins it anew",
                session_key_name(s->name), is_python ? "JavaScript" : "Python",
                is_python ? "run_javascript" : "run_python");
        session_refuse_first(s, "LanguageError", why);
}

static void run_next(struct session *s, const struct session_details *details)
{
        if (!s->queue.first && s->single)
                session_kill_sandbox(s, END_IDLE, "its call has ended");
        if (!s->queue.first || s->queue.first->is_postponed)
                return;
        bool is_other = !has_language(s->profile, s->queue.first),
             other = is_other || is_other_profile(s);
        if (s->queue.first->request.reset && (!session_is_fresh(s) || other))
                session_kill_sandbox(s, END_RESET, "");
        else if (is_other)
                refuse_other_language(s);
        else if (other)
                refuse_other_profile(s);
        else if (checkpoint_prepare(s) && transaction_begin(s) && copies_prepare(s))
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
        if (!cell->request.is_probe) {
                copies_end_cell(s, cell);
                s->copies->state_of = cell->number;
        }
        return cell;
}

/* The processes that it has started end: the interpreter only has taken notice of its interrupt. */
static void sweep(struct session *s, const struct cell *cell)
{
        struct timespec now;

        clock_gettime(CLOCK_BOOTTIME, &now);
        uint64_t us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
        us -= clock_us() - cell->started_us;
        sandbox_request(&s->context->requests, MONITOR_SESSION_SWEEP, s->target,
                        (uint32_t)(us / (1000000 / (uint64_t)sysconf(_SC_CLK_TCK))) & INT32_MAX);
}

static void finish_cell(struct session *s, const struct session_details *details)
{
        bool was_interrupted = s->state == SESSION_INTERRUPTING;
        struct cell *cell = complete_cell(s);

        if (was_interrupted)
                sweep(s, cell);
        if (transaction_roll_back(s, cell) || (cell->checkpoint[0] && checkpoint_make(s, cell)))
                return;
        session_enter(s, was_interrupted ? SESSION_SWEEPING : SESSION_IDLE);
        session_end_cell(s, cell);
        session_wake(s);
}

/* An interrupt, or a reminder, may have been sent after the code had ended: it must not hit the next cell. */
static void settle(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_SETTLING);
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

/* ---- the end of the sandbox ---- */

static void note_closed(struct session *s, const struct session_details *details)
{
        char why[CELL_WHY_MAX];

        if (!error_is_set(details->error)) {
                /* A copy that takes the worker's place was not interrupted. Without copies, the interrupt has ended the worker. */
                if (!s->profile || s->profile->survives)
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
        session_kill_sandbox(s, END_OWNER, details->error->text);
}

void session_forget_sandbox(struct session *s)
{
        channel_close(&s->channel);
        streams_close(&s->streams);
        calls_drop_all(s);
        session_end_postponed(s);
        *s->installs = (struct session_installs){};
        meter_close(&s->meter);
        tasks_close(s);
        injected_done(s);
        session_network_close(&s->network);
        s->target = s->serial = 0;
        session_forget_rest(s);
        s->rest.stopped = 0;
        s->catalogue = 0;
        s->stop_status = CELL_OK;
        s->why[0] = '\0';
        copies_forget_all(s);
        *s->copies = (struct copies){};
        *s->transaction = (struct transaction){};
        *s->block = (struct block){};
        s->branch_file = branch_file_unref(s->branch_file);
        receipts_done(&s->receipts); /* that of the cell that ended it comes after this */
        leave_profile(s);
        session_enter(s, SESSION_NONE); /* counts its end */
        s->end = END_NONE;
}

static void run_elsewhere(struct session *s)
{
        session_tell_end(s, s->queue.first, "unread",
                         "before it had read the cell: another one takes it");
        session_forget_sandbox(s);
        files_fail_all(s, "its sandbox has ended");
        session_wake(s);
}

static bool is_bound(const void *data, const struct cell *cell)
{
        return cell->request.is_bound;
}

/* A person's code is for the variables that the session had. */
static void refuse_bound(struct session *s)
{
        char why[CELL_WHY_MAX];

        snprintf(why, sizeof(why), "the session ended before this code ran: %.300s", s->lost);
        session_refuse_unbegun(s, is_bound, NULL, "SandboxError", why);
}

/* One word. */
static const char *end_reason(const struct session *s, const struct cell_outcome *outcome)
{
        static const char *const reasons[] = {
                [END_NONE] = "",         [END_TIMEOUT] = "timeout", [END_CANCELLED] = "cancelled",
                [END_RESET] = "reset",   [END_IDLE] = "idle",       [END_PROTOCOL] = "protocol",
                [END_CLOSED] = "closed", [END_OWNER] = "owner",
        };
        static_assert(ARRAY_SIZE(reasons) == SESSION_END_MAX, "a word for each end");

        return s->end == END_NONE ? cell_status_name(outcome->status) : reasons[s->end];
}

static void finish(struct session *s, const struct session_details *details)
{
        const struct monitor_ended *ended = details->ended;
        struct cell_outcome none = {};

        streams_drain(&s->streams);
        if (session_take_back_cell(s)) {
                run_elsewhere(s);
                return;
        }
        struct cell *cell = session_current(s);
        struct cell_outcome *outcome = cell ? &cell->outcome : &none;
        bool reset = s->end == END_RESET;
        /* A worker that has ended before is known better than its copy, which did not wake. A cell with a
         * result has only waited for its checkpoint. */
        if (!s->copies->is_restoring && !(cell && cell->has_result))
                outcome_dead(s, ended, outcome);
        else
                outcome->state = CELL_STATE_LOST;
        if (transaction_is_failing(s) && !outcome->why[0])
                snprintf(outcome->why, sizeof(outcome->why),
                         "the copy of the state had ended, and nothing was rolled back");
        if (outcome->why[0] == '\0')
                snprintf(outcome->why, sizeof(outcome->why), "%s",
                         s->copies->lost[0] ? s->copies->lost : s->why);
        session_tell_end(s, cell, end_reason(s, outcome), reset ? "reset" : outcome->why);
        if (cell && !cell->has_result) {
                calls_forget_unsent(s);
                outcome_take_usage(s, cell, ended);
        }
        snprintf(s->lost, sizeof(s->lost), "%s", reset ? "" : outcome->why);
        session_forget_sandbox(s);
        if (cell)
                session_end_cell(s, cell);
        if (!reset)
                refuse_bound(s);
        files_fail_all(s, s->lost);
        session_wake(s);
}

/* The worker may have sent frames before it ended: they are handled first. */
static void drain_and_finish(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_DRAINING);
        pictures_give_up(s);
        channel_drain(&s->channel);
        finish(s, details);
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
                finish(s, details);
        else
                session_dispatch(s, EVENT_ENDED, details);
}

/* ---- idle sessions ---- */

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

        if ((scans || copies_is_due(s)) && idle_left_ms(s) > 0 &&
            !principal_is_quiet(s->principal, idle_ms(s))) {
                session_enter(s, SESSION_IDLE);
                return;
        }
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

static void note_stopped(struct session *s, const struct session_details *details)
{
        s->rest.stopped = details->stopped;
        session_enter(s, SESSION_FROZEN);
}

/* The worker stands still too, so that no copy comes now. News of a rest that a call has ended is dropped. */
static void stop_keeping(struct session *s, const struct session_details *details)
{
        if (!s->rest.is_on)
                return;
        copies_give_up_keeping(s, NULL);
        note_stopped(s, details);
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

/* ---- the table ---- */

const struct session_table session_table = {
        .time_in_state = time_in_state_ms,
        .may_be_left = tasks_may_be_left,
        .hold = session_hold,
        .release = session_release,
        .drop_hold = session_hold_drop,
        .actions = {
                [EVENT_WAKE] = {[SESSION_NONE] = get_sandbox,
                                [SESSION_IDLE] = run_next,
                                [SESSION_FREEZING... SESSION_FROZEN] = run_next},
                [EVENT_PLACE] = {[SESSION_QUEUED] = get_again},
                [EVENT_STARTED] =
                        {[SESSION_CREATING] = take_sandbox, [SESSION_DISCARDING] = discard_sandbox},
                [EVENT_FAILED] = {[SESSION_CREATING... SESSION_DISCARDING] = note_failed},
                [EVENT_ENDED] = {[SESSION_IDLE... SESSION_RESTORING] = drain_and_finish,
                                 [SESSION_WAKING] = finish_woken,
                                 [SESSION_CLOSED... SESSION_KILLING] = finish},
                [EVENT_STOPPED] = {[SESSION_IDLE] = note_stopped,
                                   [SESSION_KEEPING] = stop_keeping,
                                   [SESSION_FREEZING... SESSION_FROZEN] = note_stopped},
                [EVENT_SWEPT] = {[SESSION_SWEEPING] = settle},
                [EVENT_FROZEN] = {[SESSION_FREEZING] = note_frozen},
                [EVENT_COPY] = {[SESSION_IDLE] = idle_on,
                                [SESSION_KEEPING] = session_become_idle,
                                [SESSION_RUNNING... SESSION_RESTORING] = block_retry},
                [EVENT_CLEARED] = {[SESSION_IDLE... SESSION_RESTORING] = restore_take_cleared,
                                   [SESSION_WAKING] = take_cleared_again},
                [EVENT_RESTORED] = {[SESSION_WAKING] = restore_take_restored},
                [EVENT_BACK] = {[SESSION_IDLE] = restore_go_back,
                                [SESSION_FREEZING... SESSION_FROZEN] = restore_go_back,
                                [SESSION_RUNNING... SESSION_INTERRUPTING] = restore_go_back},
                [EVENT_GONE] = {[SESSION_RESTORING] = restore_cannot_go_back},
                [EVENT_TIMER] = {[SESSION_IDLE] = rest,
                                 [SESSION_KEEPING] = copies_give_up_keeping,
                                 [SESSION_FREEZING... SESSION_FROZEN] = drop_idle,
                                 [SESSION_SWEEPING] = settle,
                                 [SESSION_SETTLING] = session_become_idle,
                                 [SESSION_RUNNING] = stop_at_timeout,
                                 [SESSION_INTERRUPTING] = end_uninterrupted,
                                 [SESSION_RESTORING] = end_unrestored,
                                 [SESSION_WAKING] = restore_give_up,
                                 [SESSION_CLOSED] = kill_closed},
                [EVENT_RESULT] = {[SESSION_RUNNING... SESSION_INTERRUPTING] = finish_cell,
                                  [SESSION_DRAINING] = finish_last_cell},
                [EVENT_CLOSED] = {[SESSION_IDLE... SESSION_RESTORING] = note_closed,
                                  [SESSION_WAKING] = kill_closed},
                [EVENT_CANCEL] = {[SESSION_RUNNING] = stop_cancelled},
                [EVENT_KILL] = {[SESSION_RUNNING... SESSION_RESTORING] = kill_cancelled,
                                [SESSION_WAKING] = restore_give_up},
                [EVENT_OWNER_END] = {[SESSION_CREATING] = discard_later,
                                     [SESSION_IDLE... SESSION_CLOSED] = kill_for_owner},
                [EVENT_NEEDED] = {[SESSION_FREEZING... SESSION_FROZEN] = thaw},
        }};
