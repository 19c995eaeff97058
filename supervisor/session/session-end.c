/* The end of a session's sandbox. */
#include <stdio.h>

#include "base/fd.h"
#include "supervisor/session/outcome.h"
#include "supervisor/session/profile.h"
#include "supervisor/session/session-internal.h"
#include "supervisor/session/streams.h"

void session_forget_sandbox(struct session *s)
{
        channel_close(&s->channel);
        streams_close(s);
        calls_drop_all(&s->calls);
        int fds[] = {s->cpu_fd, s->peak_fd, s->memory_fd, s->changes_fd};
        fd_close_many(fds, ARRAY_SIZE(fds));
        s->cpu_fd = s->peak_fd = s->memory_fd = s->changes_fd = -1;
        session_network_close(s);
        s->process_peak = 0;
        s->target = s->serial = 0;
        s->catalogue = 0;
        s->n_installs = 0;
        s->stop_status = CELL_OK;
        s->end = END_NONE;
        s->why[0] = '\0';
        session_forget_copies(s);
        s->copy = (struct session_copies){};
        s->transaction = (struct session_transaction){};
        s->block = (struct session_block){};
        s->state_of = 0;
        receipts_done(&s->receipts); /* that of the cell that ended it comes after this */
        session_profile_leave(s);
        session_enter(s, SESSION_NONE);
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

/* A person's code is for the variables that the session had. */
static void refuse_bound(struct session *s)
{
        char why[CELL_WHY_MAX];
        struct cell *next;

        snprintf(why, sizeof(why), "the session ended before this code ran: %.300s", s->lost);
        for (struct cell *cell = s->cells; cell; cell = next) {
                next = cell->next;
                if (cell->is_bound)
                        session_refuse_cell(s, cell, CELL_ERROR, "SandboxError", why);
        }
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
        /* A worker that has ended before is known better than its copy, which did not wake. A cell with a
         * result has only waited for its checkpoint. */
        if (!s->copy.is_restoring && !(cell && cell->has_result))
                outcome_dead(s, ended, outcome);
        else
                outcome->state = CELL_STATE_LOST;
        if (session_is_failing(s) && !outcome->why[0])
                snprintf(outcome->why, sizeof(outcome->why),
                         "the copy of the state had ended, and nothing was rolled back");
        if (outcome->why[0] == '\0')
                snprintf(outcome->why, sizeof(outcome->why), "%s",
                         s->copy.lost[0] ? s->copy.lost : s->why);
        log_event(LOG_LEVEL_INFO, &ids, "sandbox %u ended: %s", s->target,
                  reset ? "reset" : outcome->why);
        if (cell && !cell->has_result)
                outcome_take_usage(s, cell, ended);
        snprintf(s->lost, sizeof(s->lost), "%s", reset ? "" : outcome->why);
        session_forget_sandbox(s);
        if (cell)
                session_end_cell(s, cell);
        if (!reset)
                refuse_bound(s);
        files_fail_all(s, s->lost);
        session_wake(s);
}

/* The worker may have sent frames before it died. */
void session_drain_and_bury(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_DRAINING);
        channel_drain(&s->channel);
        bury(s, details->ended);
}

void session_bury(struct session *s, const struct session_details *details)
{
        bury(s, details->ended);
}
