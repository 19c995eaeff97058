/* Runs cells in transactions. */
#include "supervisor/session/state/transaction.h"

#include <stdio.h>

#include "supervisor/session/calls/calls.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/state/copies.h"

static void refuse(struct session *s, const char *why)
{
        char text[CELL_WHY_MAX];

        snprintf(text, sizeof(text), "the cell was not run: it could not be rolled back: %s", why);
        s->transaction->state = TRANSACTION_NONE;
        session_refuse_first(s, "TransactionError", text);
}

static void end_asking(struct session *s, const char *why)
{
        s->transaction->state = why ? TRANSACTION_REFUSED : TRANSACTION_READY;
        s->transaction->copy = s->copies->asked.id;
        snprintf(s->transaction->why, sizeof(s->transaction->why), "%s", why ? why : "");
}

static void on_taken(struct session *s)
{
        if (s->transaction->state == TRANSACTION_ASKED)
                end_asking(s, NULL);
}

static void on_refused(struct session *s, const char *why)
{
        if (s->transaction->state == TRANSACTION_ASKED)
                end_asking(s, why ? why : COPIES_NOT_MADE);
        else
                copies_note_refusal(s, why);
}

static void on_given_up(struct session *s)
{
        if (s->transaction->state == TRANSACTION_ASKED)
                end_asking(s, "the interpreter is busy with a background task");
}

static void ask(struct session *s)
{
        static const struct copy_requester requester = {
                .taken = on_taken, .refused = on_refused, .given_up = on_given_up};

        session_thaw(s);
        if (!copies_request(s, &requester, "", copies_snapshot_bytes(s))) {
                refuse(s, "the interpreter does not read what it is sent");
                return;
        }
        s->transaction->state = TRANSACTION_ASKED;
        session_enter(s, SESSION_KEEPING);
}

bool transaction_begin(struct session *s)
{
        if (!s->queue.first->request.rolls_back || s->transaction->state == TRANSACTION_READY)
                return true;
        if (s->transaction->state == TRANSACTION_REFUSED)
                refuse(s, s->transaction->why);
        else if (session_is_javascript(s))
                refuse(s, "a JavaScript session has no copies");
        else if (!s->profile || !s->profile->survives)
                refuse(s, "the profile keeps no copies of the state (state.survives)");
        else if (s->copies->is_awaited || s->copies->is_offered)
                refuse(s, "the interpreter is busy with a background task");
        else
                ask(s);
        return false;
}

/* Code has ended the copy: the cell ends as it would without a transaction. */
static void say_gone(struct session *s, struct cell *cell)
{
        s->transaction->state = TRANSACTION_NONE;
        snprintf(cell->outcome.note, sizeof(cell->outcome.note), "%s",
                 COPIES_NOT_TAKEN_BACK "; nothing was rolled back");
}

bool transaction_roll_back(struct session *s, struct cell *cell)
{
        const struct copy *copy = copies_find(s, s->transaction->copy);

        if (s->transaction->state != TRANSACTION_RUNNING || cell->outcome.status == CELL_OK) {
                s->transaction->state = TRANSACTION_NONE;
                return false;
        }
        if (!copy) {
                say_gone(s, cell);
                return false;
        }
        cell->has_result = true;
        s->copies->wanted = copy->id;
        /* Answers that come now are not used: the calls count as in doubt. */
        calls_drop_all(s);
        session_enter(s, SESSION_RESTORING);
        sandbox_request(&s->context->requests, MONITOR_SESSION_RESTORE, s->target, copy->pid);
        return true;
}

/* init has ignored the request, and the worker lives. */
bool transaction_cannot_roll_back(struct session *s)
{
        struct cell *cell = session_current(s);

        if (!transaction_is_failing(s))
                return false;
        say_gone(s, cell);
        s->copies->wanted = 0;
        session_become_idle(s, NULL);
        return true;
}

/* A cell that has ended well before its interpreter ended has kept what it did. */
bool transaction_is_rolling_back(const struct session *s)
{
        const struct cell *cell = session_current(s);

        if (copies_is_rolling_block_back(s))
                return true;
        return cell && s->transaction->state == TRANSACTION_RUNNING &&
               s->copies->woken.id == s->transaction->copy &&
               !(cell->has_result && cell->outcome.status == CELL_OK);
}

bool transaction_is_failing(const struct session *s)
{
        const struct cell *cell = session_current(s);

        return cell && cell->has_result && s->transaction->state == TRANSACTION_RUNNING;
}
