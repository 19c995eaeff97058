/* Holds and releases the time of cells. */
#include "supervisor/session/machine/cell-time.h"

#include "base/clock.h"
#include "supervisor/session/machine/machine.h"

/* Whether the session's timer is the time of this cell. */
static bool is_timed(const struct session *s, const struct cell *cell)
{
        return s->state == SESSION_RUNNING && s->queue.first == cell && cell->timeout_ms > 0;
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

/* Time above the maximum counts, or code could have its blocks rolled back without end. */
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
        struct cell *cell = s->queue.first;

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
