/*
 * How many processes and threads the code of a session makes, and when its files are looked at.
 *
 * The kernel numbers them in the order in which they are made, in the session's pid namespace; init reads the
 * newest number. Code can neither set it nor answer for init. A reading costs two messages and four
 * switches between processes, so it comes after the result, and not for each of many short cells: their
 * receipts have one number together.
 *
 * init looks at files when it is asked for that number, unless that takes long. So it is asked once more when
 * the session rests.
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

/* For an answer, which may be missing: see GIVE_UP_US. */
static bool waits(const struct session *s)
{
        return s->tasks.is_asked && clock_us() - s->tasks.asked_us < GIVE_UP_US;
}

static void ask(struct session *s, uint64_t cell, bool looks)
{
        struct session_tasks *t = &s->tasks;

        if (s->single || !s->context->requests.count)
                return;
        t->is_asked = true;
        t->asked_us = clock_us();
        t->asked_for = cell;
        s->context->requests.count(s->context->requests.data, s->target, looks);
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
        bool is_due = cell->outcome.duration_us >= LONG_CELL_US || now - t->asked_us >= PAUSE_US;
        if (!waits(s) && is_due)
                ask(s, cell->number, false);
}

void session_tasks_begin(struct session *s, const struct cell *load)
{
        if (session_is_usable(s))
                ask(s, load->number, true);
}

bool session_look_is_due(const struct session *s)
{
        return s->changes_fd >= 0 && !s->single && s->n_run > 0 &&
               s->tasks.looked_after != s->last_number;
}

/* One answer at a time: it is for the cell that was named last. */
static void look_if_wanted(struct session *s)
{
        if (!s->tasks.is_look_wanted || waits(s))
                return;
        s->tasks.is_look_wanted = false;
        if (!session_current(s) && receipts_lack_files(&s->receipts))
                ask(s, s->last_number, true);
}

void session_look(struct session *s)
{
        s->tasks.looked_after = s->last_number;
        s->tasks.is_look_wanted = true;
        look_if_wanted(s);
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
        if (counted->own == 0) {
                t->is_asked = false;
                session_take_changes(s, t->asked_for);
                look_if_wanted(s);
        }
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
