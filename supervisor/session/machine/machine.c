/* Passes events to the actions of a table, changes states and sets their timers. */
#include "supervisor/session/machine/machine.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"

static const char *const state_names[] = {
        [SESSION_NONE] = "not there",
        [SESSION_QUEUED] = "being made",
        [SESSION_CREATING] = "being made",
        [SESSION_DISCARDING] = "being made",
        [SESSION_IDLE] = "idle",
        [SESSION_KEEPING] = "idle",
        [SESSION_FREEZING] = "idle",
        [SESSION_FROZEN] = "frozen",
        [SESSION_SETTLING] = "idle",
        [SESSION_RUNNING] = "running",
        [SESSION_INTERRUPTING] = "being interrupted",
        [SESSION_RESTORING] = "being restored",
        [SESSION_WAKING] = "being restored",
        [SESSION_CLOSED] = "ending",
        [SESSION_KILLING] = "ending",
        [SESSION_DRAINING] = "ending",
};
static_assert(ARRAY_SIZE(state_names) == SESSION_STATE_MAX, "a name for each state");

const char *session_state_name(enum session_state state)
{
        return state_names[state];
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        session_dispatch(data, EVENT_TIMER, NULL);
}

static void request_interrupt(struct session *s, bool reminds)
{
        s->is_reminded = reminds;
        sandbox_request(&s->context->requests, MONITOR_SESSION_INTERRUPT, s->target, reminds);
}

/* The worker was interrupted, and its cell has not ended yet. */
static void on_remind(evutil_socket_t fd, short what, void *data)
{
        request_interrupt(data, true);
}

int machine_init(struct session *s)
{
        s->timer = evtimer_new(s->context->base, on_timer, s);
        s->remind = event_new(s->context->base, -1, EV_PERSIST, on_remind, s);
        return s->timer && s->remind ? 0 : -ENOMEM;
}

void machine_done(struct session *s)
{
        loop_event_free(&s->timer);
        loop_event_free(&s->remind);
}

bool session_dispatch(struct session *s, enum session_event event,
                      const struct session_details *details)
{
        if (!s->table->actions[event][s->state])
                return false;
        s->table->actions[event][s->state](s, details);
        assert(s->state < SESSION_STATE_MAX);
        return true;
}

void session_dispatch_fds(struct session *s, enum session_event event,
                          const struct session_details *details, size_t n)
{
        if (session_dispatch(s, event, details))
                return;
        for (size_t i = 0; i < n; i++)
                close(details->fds[i]);
}

/* before: the state that it leaves. */
static void watch_interrupt(struct session *s, enum session_state before)
{
        const struct timeval period = clock_timeval_ms(SESSION_REMIND_MS);

        if (s->state == SESSION_INTERRUPTING)
                event_add(s->remind, &period);
        else if (before == SESSION_INTERRUPTING)
                event_del(s->remind);
}

void session_enter(struct session *s, enum session_state state)
{
        enum session_state before = s->state;

        s->state = state;
        uint64_t ms = s->table->time_in_state(s);
        struct timeval t = clock_timeval_ms(ms);
        s->due_us = clock_us() + ms * 1000;
        if (ms > 0)
                evtimer_add(s->timer, &t);
        else
                evtimer_del(s->timer);
        watch_interrupt(s, before);
        s->context->owner.state_changed(s->context->owner.data, s, before);
}

bool session_begin_rest(struct session *s)
{
        const struct config_profile *profile = s->profile ? s->profile : &s->context->config->top;

        if (s->rests || session_is_fresh(s))
                return false;
        s->rests = true;
        sandbox_request(&s->context->requests, MONITOR_SESSION_REST, s->target,
                        profile->background_ms);
        return true;
}

void session_thaw(struct session *s)
{
        if (s->rests) {
                s->rests = false;
                sandbox_request(&s->context->requests, MONITOR_SESSION_REST, s->target, 0);
                if (s->state == SESSION_IDLE)
                        session_enter(s, SESSION_IDLE);
        }
        session_dispatch(s, EVENT_NEEDED, NULL);
}

void session_interrupt(struct session *s, enum cell_status status)
{
        s->stop_status = status;
        s->queue.first->attempts = CELL_ATTEMPTS_MAX; /* its time is over */
        session_enter(s, SESSION_INTERRUPTING);
        request_interrupt(s, false);
}

void session_kill_sandbox(struct session *s, enum session_end end, const char *why)
{
        s->end = end;
        snprintf(s->why, sizeof(s->why), "%s", why);
        session_enter(s, SESSION_KILLING);
        sandbox_request(&s->context->requests, MONITOR_SESSION_KILL, s->target, 0);
}

void session_send_catalogue(struct session *s)
{
        const struct tool_provider *tools = &s->context->tools;
        uint64_t version = 0;
        const struct buffer *catalogue = tools->catalogue(tools->data, s->rights, &version);

        if (!catalogue || version <= s->catalogue)
                return;
        int r = channel_send(&s->channel, FRAME_CATALOG, version, buffer_bytes(catalogue),
                             catalogue->length);
        if (r < 0)
                log_warning("session %s: catalogue of %zu bytes not sent: %s", s->name,
                            catalogue->length, strerror(-r));
        else
                s->catalogue = version;
}
