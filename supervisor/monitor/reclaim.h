/*
 * Gives the host the memory of a sandbox that has been frozen, as far as the kernel can: file pages
 * and caches, since a sandbox has no swap.
 *
 * The kernel takes that long over one write as it takes, so that a child of ours does it, which a
 * deadline ends.
 */
#pragma once

#include <event2/event.h>

#include "supervisor/monitor/cgroup.h"
#include "supervisor/monitor/children.h"

struct reclaim;

enum {
        RECLAIM_AFTER_MS = 100, /* by then its processes have stopped */
        RECLAIM_SECONDS = 2,
};

/* All borrowed. NULL without memory. */
struct reclaim *reclaim_new(struct event_base *base, struct children *children,
                            struct cgroup *cgroup);
struct reclaim *reclaim_free(struct reclaim *reclaim); /* waits for the child, which is killed */

/* Soon, once. Nothing where the kernel has no such thing. */
void reclaim_begin(struct reclaim *reclaim);
void reclaim_stop(struct reclaim *reclaim); /* at once; without waiting */
