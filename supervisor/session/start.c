/* Gets sandboxes. */
#include "supervisor/session/start.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/frame-table.h"
#include "supervisor/session/machine/outcome.h"
#include "supervisor/session/machine/profile.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/tasks.h"
#include "supervisor/session/state/checkpoint.h"

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

static int on_frame(void *data, const struct frame_header *header, struct frame_body *body,
                    struct error *err)
{
        return frame_dispatch(data, header, body, err);
}

static bool may_take(void *data)
{
        const struct session *s = data;

        return s->state == SESSION_DRAINING ||
               (s->state != SESSION_RESTORING && !calls_full(s->calls));
}

/* Takes ownership of the descriptors. */
static int attach(struct session *s, uint32_t target, const int fds[SESSION_FDS], struct error *err)
{
        const struct channel_owner owner = {.data = s,
                                            .session = s->name,
                                            .frame = on_frame,
                                            .may_take = may_take,
                                            .closed = on_closed};
        const struct log_ids ids = session_log_ids(s, NULL);

        log_event(LOG_LEVEL_INFO, &ids, "sandbox %u is up", target);
        s->target = target;
        meter_open(&s->meter, &fds[SESSION_CPU]);
        tasks_open(s, fds[SESSION_CHANGES]);
        session_network_open(&s->network, &s->context->requests, s->name, target, s->profile);
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

void start_take(struct session *s, const struct session_details *details)
{
        start_sandbox(s, details->target, details->fds);
}

void start_discard(struct session *s, const struct session_details *details)
{
        attach(s, details->target, details->fds, NULL);
        session_kill_sandbox(s, END_OWNER, SESSION_ENDED_BY_OWNER);
}

void start_get_sandbox(struct session *s, const struct session_details *details)
{
        const struct session_owner *owner = &s->context->owner;
        struct sandbox_offered offered = {};
        struct error err = {};

        if (!s->queue.first && !s->restart)
                return;
        if (s->queue.first && s->queue.first->restore[0] && !checkpoint_prepare(s))
                return;
        int r = session_profile_enter(s, &err);
        if (r >= 0)
                r = owner->get_sandbox(owner->data, (size_t)r, &offered, &err);
        if (r < 0) {
                session_profile_leave(s);
                refuse_waiting(s, error_is_set(&err) ? err.text : strerror(-r));
                return;
        }
        if (r == SANDBOX_READY) {
                start_sandbox(s, offered.target, offered.fds);
                return;
        }
        s->serial = offered.serial;
        session_enter(s, r == SANDBOX_COMING ? SESSION_CREATING : SESSION_QUEUED);
}

void start_again(struct session *s, const struct session_details *details)
{
        session_profile_leave(s);
        session_enter(s, SESSION_NONE);
        session_wake(s);
}

void start_failed(struct session *s, const struct session_details *details)
{
        s->serial = 0;
        session_profile_leave(s);
        session_enter(s, SESSION_NONE);
        session_drop_cancelled(s);
        if (details->error->code == ESTALE)
                session_wake(s);
        else
                refuse_waiting(s, details->error->text);
}

void start_discard_later(struct session *s, const struct session_details *details)
{
        session_enter(s, SESSION_DISCARDING);
}
