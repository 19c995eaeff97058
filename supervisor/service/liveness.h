/*
 * Whether the event loops of broker and monitor turn.
 *
 * A timer of the broker sends the monitor a request (PING) from time to time, unless the last one was not answered yet. With each of them the
 * monitor tells the service manager's watchdog that both loops turn. A broker whose loop hangs answers no question about it. The lag of both
 * loops is a metric.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

enum {
        LIVENESS_PERIOD_MS = 5000, /* or a quarter of the watchdog's time, if that is less */
        LIVENESS_MOST_MS =
                10000, /* without an answer for this time, the monitor counts as hanging */
};

/* watchdog_ms: -1: none. ask() sends the request and returns 0, or negative errno. */
int liveness_start(struct event_base *base, int watchdog_ms, int (*ask)(void *data), void *data);
/* The monitor has answered. */
void liveness_answered(void);
/* Before liveness_start() it is true. */
bool liveness_is_ok(void);
void liveness_stop(void);
