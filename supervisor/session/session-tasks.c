/*
 * How many processes and threads the code of a session makes.
 *
 * The kernel numbers them in the order in which they are made, in the session's pid namespace; init reads the
 * newest number. Code can neither set it nor answer for init. A reading costs two messages and four
 * switches between processes, so it comes after the result, and not for each of many short cells: their
 * receipts have one number together.
 *
 * Numbers start again at 300 after pid_max. What was made before that, is not known then.
 */
#include "base/clock.h"
#include "supervisor/session/session-internal.h"

enum {
        LAST_OF_OURS = 2, /* init and the worker */
        FIRST_AGAIN = 300,
        LONG_CELL_US = 2000,
        PAUSE_US = 20000,     /* between two readings after short cells */
        GIVE_UP_US = 1000000, /* an answer may be missing: its session was frozen */
};

void session_tasks_open(struct session *s)
{
        s->tasks = (struct session_tasks){.last = LAST_OF_OURS};
}

void session_tasks_ask(struct session *s, const struct cell *cell)
{
        struct session_tasks *t = &s->tasks;
        uint64_t now = clock_us();

        if (s->state == SESSION_NONE) {
                if (t->is_over)
                        receipts_count(&s->receipts, t->from, cell->number, t->uncounted,
                                       t->is_wrapped);
                return;
        }
        bool waits = t->is_asked && now - t->asked_us < GIVE_UP_US;
        bool is_due = cell->outcome.duration_us >= LONG_CELL_US || now - t->asked_us >= PAUSE_US;
        if (waits || !is_due || s->single || !s->context->requests.count)
                return;
        t->is_asked = true;
        t->asked_us = now;
        t->asked_for = cell->number;
        s->context->requests.count(s->context->requests.data, s->target);
}

static void take(struct session *s, uint32_t last, uint32_t own)
{
        struct session_tasks *t = &s->tasks;
        uint64_t made = last - t->last;

        if (last == 0)
                return;
        if (last < t->last) {
                made = last > FIRST_AGAIN ? last - FIRST_AGAIN : 0;
                t->is_wrapped = true;
        }
        made -= made < own ? made : own;
        t->last = last;
        t->is_known = true;
        t->total += made;
        t->uncounted += made;
}

void session_counted(struct session *s, const struct monitor_counted *counted)
{
        struct session_tasks *t = &s->tasks;

        if (s->sampled.now == 0 && counted->memory > 0)
                session_memory(s, counted->memory);
        uint64_t to = counted->own > 0 ? s->last_number : t->asked_for;
        if (counted->own == 0)
                t->is_asked = false;
        /* A copy may have its numbers already, and the count that comes with it has those of the code too. */
        if (counted->own == 0 && (s->copy.is_awaited || s->copy.is_offered))
                return;
        take(s, counted->last_pid, counted->own);
        if (counted->own > 0 && s->copy.asked.is_aside)
                return; /* the cell runs on */
        if (!t->is_known || !receipts_count(&s->receipts, 0, to, t->uncounted, t->is_wrapped))
                return;
        t->uncounted = 0;
        t->is_wrapped = false;
}

void session_tasks_end(struct session *s, const struct monitor_ended *ended)
{
        take(s, ended->last_pid, 0);
        s->tasks.from = receipts_uncounted(&s->receipts, UINT64_MAX);
        s->tasks.is_over = ended->last_pid != 0;
}
