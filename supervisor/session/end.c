/* Ends sandboxes. */
#include "supervisor/session/end.h"

#include <stdio.h>

#include "supervisor/session/calls/calls.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/calls/install.h"
#include "supervisor/session/machine/catalogue.h"
#include "supervisor/session/machine/outcome.h"
#include "supervisor/session/machine/profile.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/tasks.h"
#include "supervisor/session/state/block.h"
#include "supervisor/session/state/copies.h"
#include "supervisor/session/state/transaction.h"

void session_forget_sandbox(struct session *s)
{
        channel_close(&s->channel);
        streams_close(&s->streams);
        calls_drop_all(s);
        install_forget(s);
        meter_close(&s->meter);
        tasks_close(s);
        session_network_close(&s->network);
        s->target = s->serial = 0;
        session_forget_catalogue(s);
        s->stop_status = CELL_OK;
        s->end = END_NONE;
        s->why[0] = '\0';
        copies_forget_all(s);
        *s->copies = (struct copies){};
        *s->transaction = (struct transaction){};
        *s->block = (struct block){};
        receipts_done(&s->receipts); /* that of the cell that ended it comes after this */
        session_profile_leave(s);
        session_enter(s, SESSION_NONE);
}

static void start_again(struct session *s)
{
        const struct log_ids ids = session_log_ids(s, s->queue.first);

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
        for (struct cell *cell = s->queue.first; cell; cell = next) {
                next = cell->next;
                if (cell->is_bound)
                        session_refuse_cell(s, cell, CELL_ERROR, "SandboxError", why);
        }
}

static void finish(struct session *s, const struct monitor_ended *ended)
{
        struct cell_outcome none = {};

        streams_drain(&s->streams);
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
        log_event(LOG_LEVEL_INFO, &ids, "sandbox %u ended: %s", s->target,
                  reset ? "reset" : outcome->why);
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

void session_drain_and_finish(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_DRAINING);
        channel_drain(&s->channel);
        finish(s, details->ended);
}

void session_finish(struct session *s, const struct session_details *details)
{
        finish(s, details->ended);
}
