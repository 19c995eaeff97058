/*
 * Whether the event loops of broker and monitor turn.
 *
 * A timer of the broker sends the monitor a request every LIVENESS_PERIOD_MS, unless the last one was not answered yet. A broker whose loop
 * hangs answers no question about it. The lag of both loops is a metric.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

enum {
        LIVENESS_PERIOD_MS = 5000,
        LIVENESS_MOST_MS =
                10000, /* without an answer for this time, the monitor counts as hanging */
};

/* ask() sends the request and returns 0, or negative errno. */
int liveness_start(struct event_base *base, int (*ask)(void *data), void *data);
/* The monitor has answered. */
void liveness_answered(void);
/* Before liveness_start() it is true. */
bool liveness_is_ok(void);
void liveness_stop(void);
