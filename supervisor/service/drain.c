/* The end of a server that drains. */
#include "supervisor/service/drain.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/service/phase.h"

enum drain_step {
        STEP_NONE,
        STEP_SESSIONS, /* sessions continue */
        STEP_CALLS,    /* calls finish */
        STEP_CANCEL,   /* they were interrupted */
        STEP_RESULTS,  /* clients may fetch results */
        STEP_DELIVER,  /* answers are being written */
        STEP_ENDED,
};

struct drain {
        const struct drain_actions *actions;
        void *data;
        struct event *timer;
        enum drain_step step;
        uint64_t began_us; /* when it stopped accepting calls */
        uint64_t due_us;   /* of the step; UINT64_MAX: it has no limit */
        uint64_t timeout_ms;
        bool is_cut; /* something was left without an end or an answer */
};

static uint64_t in_ms(uint64_t ms)
{
        return clock_us() + ms * 1000;
}

static void enter(struct drain *d, enum drain_step step, uint64_t due_us)
{
        d->step = step;
        d->due_us = due_us;
}

static void end(struct drain *d)
{
        enter(d, STEP_ENDED, UINT64_MAX);
        evtimer_del(d->timer);
        d->actions->ended(d->data, !d->is_cut);
}

static void begin_stop(struct drain *d)
{
        d->began_us = clock_us();
        enter(d, STEP_CALLS, in_ms(d->timeout_ms));
        service_set_draining(true, d->due_us);
        log_info("drain: no call begins any more; those that run have %llu s",
                 (unsigned long long)(d->timeout_ms / 1000));
        d->actions->stop(d->data);
        d->actions->changed(d->data, true, d->timeout_ms);
}

/* Takes the steps that can be taken now. */
static void advance(struct drain *d)
{
        const struct drain_actions *a = d->actions;
        bool is_due = clock_us() >= d->due_us;

        if (d->step == STEP_SESSIONS && (is_due || !a->has_sessions(d->data)))
                begin_stop(d);
        if (d->step == STEP_CALLS && !a->has_calls(d->data)) {
                enter(d, STEP_RESULTS, in_ms(DRAIN_FETCH_MS));
        } else if (d->step == STEP_CALLS && clock_us() >= d->due_us) {
                log_warning("drain: the time is over: calls that still run are cancelled");
                enter(d, STEP_CANCEL, in_ms(DRAIN_CANCEL_MS));
                a->cancel(d->data);
        }
        if (d->step == STEP_CANCEL && (!a->has_calls(d->data) || clock_us() >= d->due_us)) {
                d->is_cut |= a->has_calls(d->data);
                enter(d, STEP_RESULTS, 0);
        }
        if (d->step == STEP_RESULTS &&
            (clock_us() >= d->due_us || !a->has_results(d->data, d->began_us))) {
                enter(d, STEP_DELIVER, in_ms(DRAIN_DELIVER_MS));
                a->close(d->data);
                return; /* the loop writes first */
        }
        if (d->step == STEP_DELIVER && (clock_us() >= d->due_us || !a->has_answers(d->data))) {
                d->is_cut |= a->has_answers(d->data);
                end(d);
        }
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
        struct drain *d = data;

        advance(d);
        const struct timeval in = clock_timeval_ms(d->step == STEP_SESSIONS ? DRAIN_WAIT_TICK_MS
                                                                            : DRAIN_TICK_MS);
        if (d->step != STEP_ENDED && d->step != STEP_NONE)
                evtimer_add(d->timer, &in);
}

int drain_new(struct drain **ret, struct event_base *base, const struct drain_actions *actions,
              void *data, struct error *err)
{
        struct drain *d = calloc(1, sizeof(*d));

        if (d)
                *d = (struct drain){.actions = actions, .data = data};
        if (d)
                d->timer = evtimer_new(base, on_tick, d);
        if (!d || !d->timer) {
                free(d);
                return error_errno(err, ENOMEM, "drain");
        }
        *ret = d;
        return 0;
}

struct drain *drain_free(struct drain *d)
{
        if (!d)
                return NULL;
        event_free(d->timer);
        free(d);
        return NULL;
}

int drain_wait(struct drain *d, uint64_t deadline_ms, uint64_t timeout_ms, struct error *err)
{
        if (d->step > STEP_SESSIONS)
                return error_set(err, EALREADY, "the server is stopping already");
        d->timeout_ms = timeout_ms;
        enter(d, STEP_SESSIONS, deadline_ms > 0 ? in_ms(deadline_ms) : UINT64_MAX);
        service_set_draining(false, d->due_us);
        d->actions->changed(d->data, false, deadline_ms);
        event_active(d->timer, EV_TIMEOUT, 0);
        return 0;
}

int drain_undo(struct drain *d, struct error *err)
{
        if (d->step == STEP_NONE)
                return error_set(err, ENOENT, "the server is not draining");
        if (d->step != STEP_SESSIONS)
                return error_set(err, EALREADY, "the server is stopping already");
        enter(d, STEP_NONE, UINT64_MAX);
        evtimer_del(d->timer);
        service_set_ready();
        d->actions->changed(d->data, false, 0);
        return 0;
}

void drain_stop(struct drain *d, uint64_t timeout_ms)
{
        if (d->step > STEP_SESSIONS) {
                d->is_cut |= d->actions->has_calls(d->data) || d->actions->has_answers(d->data);
                if (d->step != STEP_ENDED)
                        end(d);
                return;
        }
        d->timeout_ms = timeout_ms;
        begin_stop(d);
        event_active(d->timer, EV_TIMEOUT, 0);
}
