/*
 * The end of a server that drains: what it waits for, in which order, and for how long.
 *
 * Theory of operation. drain_wait() lets live sessions continue and refuses new ones; once none is left, or at the deadline,
 * the server stops. drain_stop() stops it: no call begins any more. Then
 *
 *   1. calls that run finish, until the time is over; what still runs is interrupted, and answered with its output,
 *   2. results that ended meanwhile and that a client fetches by another request (calls without code, tasks) stay for a
 *      moment,
 *   3. streams are closed, and what was answered is delivered to clients that read,
 *   4. ended() follows.
 *
 * A timer tries after each DRAIN_TICK_MS whether the next step can be taken, so that no part has to report its end.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
        DRAIN_TICK_MS = 20,
        DRAIN_WAIT_TICK_MS = 250, /* while sessions live */
        DRAIN_FETCH_MS = 5000,    /* for step 2 */
        DRAIN_CANCEL_MS = 5000,   /* until what was interrupted has ended */
        DRAIN_DELIVER_MS = 5000,  /* for clients that do not read; at least */
        DRAIN_TIMEOUT_MAX_MS = 3600 * 1000,
};

struct drain;

struct drain_actions {
        /* Whether sessions live that calls could still use. */
        bool (*has_sessions)(void *data);
        /* No call begins any more: connections that others should get are left to them. */
        void (*stop)(void *data);
        /* Whether a call runs, or its answer is being made. */
        bool (*has_calls)(void *data);
        /* Whether results of calls that have ended since this time (clock_us()) wait to be fetched. */
        bool (*has_results)(void *data, uint64_t since_us);
        /* The time is over: interrupts what runs. */
        void (*cancel)(void *data);
        /* No call is left: ends the streams that would not end by themselves. */
        void (*close)(void *data);
        /* Whether answers wait to be written. */
        bool (*has_answers)(void *data);
        /* A phase has begun: stopping, and how long it may take at most. */
        void (*changed)(void *data, bool stopping, uint64_t left_ms);
        /* The server ends. whole: each call that had begun was answered. */
        void (*ended)(void *data, bool whole);
};

/* actions: static. */
int drain_new(struct drain **ret, struct event_base *base, const struct drain_actions *actions,
              void *data, struct error *err);
struct drain *drain_free(struct drain *drain);

/* No new sessions; the server stops when none is left, or after deadline_ms (0: there is no deadline), and then calls that run
 * have timeout_ms. A later call replaces the deadline. Returns -EALREADY if the server stops already. */
int drain_wait(struct drain *drain, uint64_t deadline_ms, uint64_t timeout_ms, struct error *err);
/* New sessions are accepted again. Returns -ENOENT if the server does not drain, -EALREADY if it stops. */
int drain_undo(struct drain *drain, struct error *err);
/* No new calls; those that run have timeout_ms. The second time the server ends at once. */
void drain_stop(struct drain *drain, uint64_t timeout_ms);
