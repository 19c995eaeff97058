/*
 * Gives the host the memory of sandboxes that have been frozen, as far as the kernel can: file
 * pages and caches, since a sandbox has no swap.
 *
 * The kernel takes that long over one write as it takes, so that a child of ours does it, which a
 * deadline ends. Few at a time: sessions that were idle together are frozen together.
 */
#pragma once

#include <event2/event.h>

#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/process/children.h"

struct reclaimer; /* of all sandboxes */
struct reclaim;   /* of one */

enum {
        RECLAIM_AFTER_MS = 100, /* by then its processes have stopped */
        RECLAIM_SECONDS = 2,
        RECLAIM_MOST = 2, /* children at a time; others wait for their turn */
};

/* Borrowed. NULL without memory. Freed after all that it was given to. */
struct reclaimer *reclaimer_new(struct event_base *base, struct children *children);
struct reclaimer *reclaimer_free(struct reclaimer *reclaimer);

/* Both borrowed. NULL without memory. */
struct reclaim *reclaim_new(struct reclaimer *owner, struct cgroup *cgroup);
struct reclaim *reclaim_free(struct reclaim *reclaim); /* waits for the child, which is killed */

/* Soon, once. Nothing where the kernel has no such thing. */
void reclaim_begin(struct reclaim *reclaim);
void reclaim_stop(struct reclaim *reclaim); /* at once; without waiting */
