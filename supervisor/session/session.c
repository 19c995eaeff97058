/* The life of a session, and where its events come from; session-states.c handles them. */
#include "supervisor/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "supervisor/session/session-internal.h"

void session_wake(struct session *s)
{
        event_active(s->wake, EV_TIMEOUT, 0);
}

static void on_wake(evutil_socket_t fd, short what, void *data)
{
        session_drop_cancelled(data);
        session_dispatch(data, EVENT_WAKE, NULL);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        session_dispatch(data, EVENT_TIMER, NULL);
}

static void on_remind(evutil_socket_t fd, short what, void *data)
{
        session_remind(data);
}

void session_push(struct session *s, struct cell *cell)
{
        struct cell **at = &s->cells;

        while (*at)
                at = &(*at)->next;
        *at = cell;
        cell->session = s;
        charge_open(&cell->outcome.kept, s->share);
        s->n_cells++;
        s->single |= cell_is_published(cell);
        session_wake(s);
}

void cell_cancel(struct cell *cell)
{
        cell->cancelled = true;
        if (cell->number == 0)
                session_wake(cell->session);
        else
                session_dispatch(cell->session, EVENT_CANCEL, NULL);
}

void cell_interrupt(struct cell *cell)
{
        cell->is_interrupted = true;
        cell_cancel(cell);
}

void cell_kill(struct cell *cell)
{
        cell->cancelled = true;
        if (cell->number == 0)
                session_wake(cell->session);
        else
                session_dispatch(cell->session, EVENT_KILL, NULL);
}

int session_on_result(struct session *s, const struct frame_header *header, struct frame_body *body,
                      struct error *err)
{
        struct cell *cell = session_current(s);

        if (!cell || header->id != cell->number)
                return error_set(err, EPROTO, "RESULT for cell %llu while cell %llu runs",
                                 (unsigned long long)header->id,
                                 (unsigned long long)(cell ? cell->number : 0));
        if (cell->has_result)
                return error_set(err, EPROTO, "a second RESULT for cell %llu",
                                 (unsigned long long)cell->number);
        if (s->copy.back == BACK_BLOCK)
                return error_set(err, EPROTO, "RESULT of cell %llu while a block is rolled back",
                                 (unsigned long long)cell->number);
        yyjson_val *root;
        int r = frame_body_parse(body, header, &root, err);
        if (r >= 0)
                r = cell_take_result(cell, &body->doc, err);
        if (r < 0)
                return r;
        session_dispatch(s, EVENT_RESULT, NULL);
        return 0;
}

void session_thaw(struct session *s)
{
        session_dispatch(s, EVENT_NEEDED, NULL);
}

void session_started(struct session *s, uint32_t target, const int fds[SESSION_FDS])
{
        if (session_dispatch(s, EVENT_STARTED,
                             &(struct session_details){.target = target, .fds = fds}))
                return;
        for (int i = 0; i < SESSION_FDS; i++)
                close(fds[i]);
}

void session_failed(struct session *s, const struct error *error)
{
        session_dispatch(s, EVENT_FAILED, &(struct session_details){.error = error});
}

void session_ended(struct session *s, const struct monitor_ended *ended)
{
        session_tasks_end(s, ended);
        session_dispatch(s, EVENT_ENDED, &(struct session_details){.ended = ended});
}

void session_cleared(struct session *s, const struct monitor_ended *ended,
                     const int fds[SESSION_COUNTERS])
{
        session_tasks_end(s, ended);
        if (session_dispatch(s, EVENT_CLEARED,
                             &(struct session_details){.ended = ended, .fds = fds}))
                return;
        for (int i = 0; i < SESSION_COUNTERS; i++)
                close(fds[i]);
}

void session_frozen(struct session *s)
{
        session_dispatch(s, EVENT_FROZEN, NULL);
}

void session_place_free(struct session *s)
{
        session_dispatch(s, EVENT_PLACE, NULL);
}

void session_end_by_owner(struct session *s, bool restart)
{
        s->restart = restart;
        session_dispatch(s, EVENT_OWNER_END, NULL);
}

int session_new(struct session **ret, const struct session_context *context, const char *name,
                struct error *err)
{
        struct session *s = calloc(1, sizeof(*s));

        if (!s)
                return error_errno(err, ENOMEM, "session");
        s->context = context;
        s->channel.fd = s->cpu_fd = s->peak_fd = s->memory_fd = s->changes_fd = -1;
        for (int i = 0; i < CELL_STREAMS; i++) {
                s->streams[i].fd = -1;
                capture_init(&s->streams[i].stray);
        }
        snprintf(s->name, sizeof(s->name), "%s", name);
        s->wake = evtimer_new(context->base, on_wake, s);
        s->timer = evtimer_new(context->base, on_timer, s);
        s->remind = event_new(context->base, -1, EV_PERSIST, on_remind, s);
        s->share = share_new(SHARE_OF_SESSION);
        if (!s->wake || !s->timer || !s->remind || !s->share) {
                session_free(s);
                return error_errno(err, ENOMEM, "session");
        }
        *ret = s;
        return 0;
}

struct session *session_free(struct session *s)
{
        if (!s)
                return NULL;
        if (s->timer && s->remind)
                session_forget_sandbox(s);
        files_fail_all(s, "");
        while (s->cells) {
                struct cell *cell = s->cells;
                s->cells = cell->next;
                cell_free(cell);
        }
        if (s->wake)
                event_free(s->wake);
        if (s->timer)
                event_free(s->timer);
        if (s->remind)
                event_free(s->remind);
        receipts_done(&s->receipts);
        share_unref(s->share);
        free(s);
        return NULL;
}
