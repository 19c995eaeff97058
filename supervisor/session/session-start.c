/* How a session gets its sandbox. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "supervisor/session/frame-table.h"
#include "supervisor/session/profile.h"
#include "supervisor/session/session-internal.h"
#include "supervisor/session/streams.h"

/* No sandbox can be made: the cell that has waited longest ends. */
static void refuse_first(struct session *s, const char *why)
{
        s->restart = false;
        if (s->cells)
                session_refuse_cell(s, s->cells, CELL_ERROR, "SandboxError", why);
        session_wake(s);
}

static void on_closed(void *data, const struct error *error)
{
        session_dispatch(data, EVENT_CLOSED, &(struct session_details){.error = error});
}

static int on_frame(void *data, const struct frame_header *header, struct frame_body *body,
                    struct error *err)
{
        return frame_dispatch(data, header, body, err);
}

static bool may_take(void *data)
{
        const struct session *s = data;

        return s->state == SESSION_DRAINING ||
               (s->state != SESSION_RESTORING && !calls_full(&s->calls));
}

/* Takes ownership of the descriptors. */
static int attach(struct session *s, uint32_t target, const int fds[SESSION_FDS], struct error *err)
{
        const struct channel_owner owner = {
                .data = s, .frame = on_frame, .may_take = may_take, .closed = on_closed};
        const struct log_ids ids = session_log_ids(s, NULL);

        log_event(LOG_LEVEL_INFO, &ids, "sandbox %u is up", target);
        s->target = target;
        s->cpu_fd = fds[SESSION_CPU];
        s->peak_fd = fds[SESSION_MEMORY_PEAK];
        s->memory_fd = fds[SESSION_MEMORY];
        s->changes_fd = fds[SESSION_CHANGES];
        session_network_open(s);
        s->n_run = s->memory_peak = 0;
        s->sampled = (struct session_sampled){};
        session_tasks_open(s);
        s->traffic = (struct session_traffic){};
        s->born_us = s->used_us = clock_us();
        session_enter(s, SESSION_IDLE);
        int r = streams_open(s, fds[SESSION_STDOUT], fds[SESSION_STDERR], err);
        if (r < 0)
                close(fds[SESSION_RPC]);
        else
                r = channel_open(&s->channel, s->context->base, fds[SESSION_RPC], &owner, err);
        if (r >= 0)
                charge_open(&s->channel.kept, s->share);
        return r;
}

static void start_sandbox(struct session *s, uint32_t target, const int fds[SESSION_FDS])
{
        struct error err = {};

        s->restart = false;
        if (attach(s, target, fds, &err) < 0)
                session_kill_sandbox(s, END_PROTOCOL, err.text);
        else
                session_wake(s);
}

void session_take_sandbox(struct session *s, const struct session_details *details)
{
        start_sandbox(s, details->target, details->fds);
}

void session_discard_sandbox(struct session *s, const struct session_details *details)
{
        attach(s, details->target, details->fds, NULL);
        session_kill_sandbox(s, END_OWNER, SESSION_ENDED_BY_OWNER);
}

void session_get_sandbox(struct session *s, const struct session_details *details)
{
        const struct session_owner *owner = &s->context->owner;
        struct sandbox_offered offered = {};
        struct error err = {};

        if (!s->cells && !s->restart)
                return;
        if (s->cells && s->cells->restore[0] && !session_is_prepared(s))
                return;
        int r = session_profile_enter(s, &err);
        if (r >= 0)
                r = owner->get_sandbox(owner->data, (size_t)r, &offered, &err);
        if (r < 0) {
                session_profile_leave(s);
                refuse_first(s, error_is_set(&err) ? err.text : strerror(-r));
                return;
        }
        if (r == SANDBOX_READY) {
                start_sandbox(s, offered.target, offered.fds);
                return;
        }
        s->serial = offered.serial;
        session_enter(s, r == SANDBOX_COMING ? SESSION_CREATING : SESSION_QUEUED);
}

void session_get_sandbox_again(struct session *s, const struct session_details *details)
{
        session_profile_leave(s);
        session_enter(s, SESSION_NONE);
        session_wake(s);
}

void session_note_failure(struct session *s, const struct session_details *details)
{
        s->serial = 0;
        session_profile_leave(s);
        session_enter(s, SESSION_NONE);
        session_drop_cancelled(s);
        if (details->error->code == ESTALE)
                session_wake(s);
        else
                refuse_first(s, details->error->text);
}

void session_discard_when_made(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_DISCARDING);
}
