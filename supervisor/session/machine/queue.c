/* Queues cells, numbers them, holds their time, and ends them. */
#include "supervisor/session/machine/queue.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/loop.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/outcome.h"
#include "supervisor/session/machine/session-events.h"
#include "supervisor/session/machine/tally.h"
#include "supervisor/session/machine/tasks.h"

void session_wake(struct session *s)
{
        event_active(s->queue.wake, EV_TIMEOUT, 0);
}

static void on_wake(evutil_socket_t fd, short what, void *data)
{
        session_drop_cancelled(data);
        session_dispatch(data, EVENT_WAKE, NULL);
}

/* Whether its begin was an event: then its end is one. */
static bool is_told(const struct cell *cell)
{
        return cell->number != 0 && cell->kind == CELL_CODE && !cell->request.is_probe;
}

void session_tell_stop(struct session *s)
{
        static const char why[] = "the server ended";
        struct cell *cell = session_current(s);

        if (cell && is_told(cell)) {
                cell->outcome.status = CELL_KILLED;
                cell->outcome.state = CELL_STATE_LOST;
                cell->outcome.duration_us = clock_us() - cell->started_us;
                snprintf(cell->outcome.why, sizeof(cell->outcome.why), "%s", why);
                session_tell_cell_end(s, cell);
        }
        if (s->target > 0)
                session_tell_end(s, cell, "stop", why);
}

int queue_init(struct session *s)
{
        s->queue.wake = evtimer_new(s->context->base, on_wake, s);
        return s->queue.wake ? 0 : -ENOMEM;
}

void queue_done(struct session *s)
{
        while (s->queue.first) {
                struct cell *cell = s->queue.first;
                s->queue.first = cell->next;
                principal_count(s->principal, -1, 0);
                cell_free(cell);
        }
        loop_event_free(&s->queue.wake);
}

void session_push(struct session *s, struct cell *cell)
{
        struct cell **at = &s->queue.first;

        while (*at && !((*at)->is_postponed && cell->kind == CELL_DUMP))
                at = &(*at)->next;
        cell->next = *at;
        *at = cell;
        cell->session = s;
        s->is_plans_copy |= cell->request.is_planning;
        charge_open(&cell->outcome.kept, s->account);
        s->queue.n++;
        principal_count(s->principal, 1, 0);
        s->single |= cell_is_published(cell) || cell->request.is_single;
        session_wake(s);
}

static void stop(struct cell *cell, enum session_event event)
{
        cell->cancelled = true;
        if (cell->number == 0)
                session_wake(cell->session);
        else
                session_dispatch(cell->session, event, NULL);
}

void cell_cancel(struct cell *cell)
{
        stop(cell, EVENT_CANCEL);
}

void cell_interrupt(struct cell *cell, const char *why)
{
        cell->interrupted_by = why;
        stop(cell, EVENT_CANCEL);
}

void cell_kill(struct cell *cell)
{
        stop(cell, EVENT_KILL);
}

void cell_begin_postponed(struct cell *cell)
{
        cell->is_postponed = false;
        session_wake(cell->session);
}

void session_end_postponed(struct session *s)
{
        for (struct cell *cell = s->queue.first; cell; cell = cell->next) {
                if (cell->is_postponed)
                        cell_interrupt(
                                cell,
                                "the session has ended before its plan was approved; nothing was run");
        }
}

bool cell_is_first(const struct cell *cell)
{
        const struct cell *first = cell->session->queue.first;

        /* A branch has a time limit of its own. */
        while (first && first->kind != CELL_CODE)
                first = first->next;
        return first == cell;
}

void session_number_cell(struct session *s)
{
        struct cell *cell = s->queue.first;

        streams_begin(&s->streams, cell);
        cell->number = ++s->queue.last_number;
        cell->started_us = clock_us();
}

/* The end of what was not told as a cell that begins. */
static void log_end(const struct session *s, const struct cell *cell)
{
        const struct log_ids ids = session_log_ids(s, cell);

        log_event(cell->request.is_probe ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, &ids,
                  "cell ended: %s in %llu ms%s%s", cell_status_name(cell->outcome.status),
                  (unsigned long long)(cell->outcome.duration_us / 1000),
                  *cell->outcome.why ? ", " : "", cell->outcome.why);
}

void session_end_cell(struct session *s, struct cell *cell)
{
        for (struct cell **at = &s->queue.first; *at; at = &(*at)->next) {
                if (*at == cell) {
                        *at = cell->next;
                        break;
                }
        }
        s->queue.n--;
        principal_count(s->principal, -1, 0);
        if (cell->number != 0) {
                streams_end(&s->streams);
                session_note_owners_end(s, cell);
        }
        tally_cell(s, cell);
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_finish(&cell->outcome.streams[i]);
        if (cell->number != 0 && cell->kind == CELL_CODE) {
                receipts_add(&s->receipts, cell->number, &cell->outcome);
                tasks_note_cell(s, cell);
        } else if (cell->number != 0 && cell->kind == CELL_LOAD) {
                tasks_note_load(s, cell);
        }
        /* With its receipt. */
        if (is_told(cell))
                session_tell_cell_end(s, cell);
        else
                log_end(s, cell);
        cell->request.done(cell->request.data, cell);
        cell_free(cell);
}

void session_become_idle(struct session *s, const struct session_details *details)
{
        struct cell *cell = session_current(s);

        session_enter(s, SESSION_IDLE);
        if (cell)
                session_end_cell(s, cell);
        session_wake(s);
}

void session_refuse_cell(struct session *s, struct cell *cell, enum cell_status status,
                         const char *type, const char *why)
{
        cell->outcome.status = status;
        cell->outcome.state = s->state < SESSION_IDLE ? CELL_STATE_NONE : CELL_STATE_KEPT;
        cell->outcome.error_type = type;
        snprintf(cell->outcome.why, sizeof(cell->outcome.why), "%s", why);
        session_end_cell(s, cell);
}

void session_refuse_first(struct session *s, const char *type, const char *why)
{
        session_refuse_cell(s, s->queue.first, CELL_ERROR, type, why);
        session_wake(s);
}

void session_tell_step(struct session *s, const char *what, const char *text)
{
        for (const struct cell *cell = s->queue.first; cell; cell = cell->next)
                cell_tell_step(cell, what, text);
}

void session_refuse_unbegun(struct session *s,
                            bool (*is_meant)(const void *data, const struct cell *cell),
                            const void *data, const char *type, const char *why)
{
        struct cell *cell = s->queue.first;

        while (cell) {
                bool refuse = cell->number == 0 && is_meant(data, cell);
                if (refuse)
                        session_refuse_cell(s, cell, CELL_ERROR, type, why);
                /* The end of a branch ends the code that waits for it, too. */
                cell = refuse ? s->queue.first : cell->next;
        }
}

void session_drop_cancelled(struct session *s)
{
        struct cell *next;

        for (struct cell *cell = s->queue.first; cell; cell = next) {
                next = cell->next;
                if (cell->cancelled && cell->number == 0)
                        session_refuse_cell(s, cell, CELL_CANCELLED, NULL,
                                            cell->interrupted_by
                                                    ? cell->interrupted_by
                                                    : "the call was cancelled before it began");
        }
}

bool session_take_back_cell(struct session *s)
{
        struct cell *cell = session_current(s);

        if (!cell || cell->request.is_probe || s->history.n_run != 1 || s->end != END_NONE ||
            cell->attempts >= CELL_ATTEMPTS_MAX || s->streams.has_come ||
            !channel_was_unread(&s->channel, cell->sent_as))
                return false;
        streams_end(&s->streams);
        cell->number = 0;
        s->queue.last_number--;
        snprintf(s->lost, sizeof(s->lost), "%s", cell->outcome.before);
        return true;
}

/* ---- the time of the cell that runs ---- */

/* Whether the session's timer is the time of this cell. */
static bool is_timed(const struct session *s, const struct cell *cell)
{
        return s->state == SESSION_RUNNING && s->queue.first == cell &&
               cell->request.timeout_ms > 0;
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
        uint64_t most = (cell->request.timeout_ms > SESSION_STOPPED_MS ? cell->request.timeout_ms
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
