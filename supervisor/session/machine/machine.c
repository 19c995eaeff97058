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
        [SESSION_SWEEPING] = "idle",
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
        sandbox_request(&s->context->requests, MONITOR_SESSION_INTERRUPT, s->target, reminds);
}

/* The worker was interrupted, and its cell has not ended yet. */
static void on_remind(evutil_socket_t fd, short what, void *data)
{
        request_interrupt(data, true);
}

/*
 * Between two calls the weight of the session is lowered until the next one (SESSION_REST), if its processes use processor time: a
 * session that only waits costs the next call nothing.
 */
enum {
        REST_FIRST_MS = 100, /* between two readings of the counter */
        REST_LAST_MS = 5000,
        REST_GRID_MS =
                250, /* from then on, at multiples of it: the broker wakes up for many sessions at once */
        REST_PART =
                50, /* of a processor: less is not noticed, of all sessions of a principal together */
        REST_OWN_US = 5000, /* that a copy and a scan of files take */
};

static void wait_for_rest(struct session *s, uint32_t ms)
{
        if (ms == REST_LAST_MS)
                ms -= (uint32_t)((clock_ms() + ms) % REST_GRID_MS);
        const struct timeval t = clock_timeval_ms(ms);

        evtimer_add(s->rest.timer, &t);
}

/* Without a group the counter is the worker's: of other processes it is only known whether there were any, if that. */
static bool uses_time(struct session *s)
{
        enum monitor_usage kind = session_usage_kind(s);
        uint64_t now = clock_us(), cpu = meter_cpu_us(&s->meter, kind);
        struct session_rest *r = &s->rest;
        uint64_t part = REST_PART * (s->principal->n_live ?: 1), used = cpu - r->cpu_us;
        uint64_t most = (now - r->read_us) / part + REST_OWN_US;
        bool is_first = r->wait_ms == 0;

        r->read_us = now;
        r->cpu_us = cpu;
        r->wait_ms = is_first                        ? REST_FIRST_MS
                     : r->wait_ms < REST_LAST_MS / 2 ? r->wait_ms * 2
                                                     : REST_LAST_MS;
        return (kind == MONITOR_USAGE_PROC && s->table->may_be_left(s, !is_first)) ||
               (!is_first && used > most);
}

static void set_rest(struct session *s, bool is_on)
{
        principal_count(s->principal, 0, is_on - s->rest.is_on);
        s->rest.is_on = is_on;
}

static void on_rest(evutil_socket_t fd, short what, void *data)
{
        struct session *s = data;

        if (s->state != SESSION_IDLE || s->rest.is_on)
                return;
        set_rest(s, uses_time(s) && s->branched_until_us < clock_us());
        if (s->rest.is_on)
                sandbox_request(&s->context->requests, MONITOR_SESSION_REST, s->target,
                                config_background_ms(s->context->config, s->profile));
        else
                wait_for_rest(s, s->rest.wait_ms);
}

void session_forget_rest(struct session *s)
{
        set_rest(s, false);
        s->rest.wait_ms = 0;
}

void session_thaw(struct session *s)
{
        bool was_on = s->rest.is_on;

        session_forget_rest(s);
        if (was_on)
                sandbox_request(&s->context->requests, MONITOR_SESSION_REST, s->target, 0);
        if (was_on && s->state == SESSION_IDLE)
                wait_for_rest(s, SESSION_QUIET_MS);
        session_dispatch(s, EVENT_NEEDED, NULL);
}

int machine_init(struct session *s)
{
        s->rest.timer = evtimer_new(s->context->base, on_rest, s);
        s->timer = evtimer_new(s->context->base, on_timer, s);
        s->remind = event_new(s->context->base, -1, EV_PERSIST, on_remind, s);
        return s->timer && s->remind && s->rest.timer ? 0 : -ENOMEM;
}

void machine_done(struct session *s)
{
        loop_event_free(&s->timer);
        loop_event_free(&s->remind);
        loop_event_free(&s->rest.timer);
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
        if (state == SESSION_IDLE && before != SESSION_IDLE && !session_is_fresh(s)) {
                s->rest.wait_ms = 0;
                wait_for_rest(s, SESSION_QUIET_MS);
        }
        s->context->owner.state_changed(s->context->owner.data, s, before);
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
