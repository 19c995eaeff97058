/* A request to the monitor from time to time, and how long it takes. */
#include "supervisor/service/liveness.h"

#include <errno.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/loop.h"
#include "supervisor/service/metrics.h"

enum { WATCHDOG_PINGS = 4 /* in the time of the watchdog */ };

static struct {
        struct event *timer;
        int (*ask)(void *data);
        void *data;
        uint64_t period_ms;
        uint64_t due_us, asked_us; /* asked_us 0: no request is open */
} liveness;

static int set_timer(void)
{
        const struct timeval in = clock_timeval_ms(liveness.period_ms);

        liveness.due_us = clock_us() + liveness.period_ms * 1000;
        return evtimer_add(liveness.timer, &in);
}

static double seconds_since(uint64_t then)
{
        uint64_t now = clock_us();

        return now > then ? (double)(now - then) / 1e6 : 0;
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        metrics_set(METRIC_LOOP_LAG, seconds_since(liveness.due_us), "broker");
        if (liveness.asked_us == 0) {
                liveness.asked_us = clock_us();
                if (liveness.ask(liveness.data) < 0)
                        liveness.asked_us = 0;
        }
        set_timer();
}

int liveness_start(struct event_base *base, int watchdog_ms, int (*ask)(void *data), void *data)
{
        liveness.period_ms = LIVENESS_PERIOD_MS;
        if (watchdog_ms >= 0 && watchdog_ms / WATCHDOG_PINGS < LIVENESS_PERIOD_MS)
                liveness.period_ms = (uint64_t)(watchdog_ms / WATCHDOG_PINGS) + 1;
        liveness.ask = ask;
        liveness.data = data;
        liveness.timer = evtimer_new(base, on_timer, NULL);
        return !liveness.timer || set_timer() < 0 ? -ENOMEM : 0;
}

void liveness_answered(void)
{
        if (liveness.asked_us > 0)
                metrics_set(METRIC_LOOP_LAG, seconds_since(liveness.asked_us), "monitor");
        liveness.asked_us = 0;
}

bool liveness_is_ok(void)
{
        return liveness.asked_us == 0 ||
               seconds_since(liveness.asked_us) < LIVENESS_MOST_MS / 1000.0;
}

void liveness_stop(void)
{
        loop_event_free(&liveness.timer);
        liveness.asked_us = 0;
}
