/*
 * Spare leaves: emptied leaves of sessions on version 1, kept for the next session of the same principal. Making and removing a
 * directory in each of five hierarchies takes a sixth of the processor time of a session.
 *
 * The list has at most SPARES_MAX leaves, SPARES_OF_ONE of them a principal's, each for at most SPARE_MS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limits.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"

enum { SPARES_MAX = 32, SPARES_OF_ONE = 16, SPARE_MS = 60000, SPARE_BYTES = 64 * 1024 };

/*
 * Takes ownership of a leaf, if it is a session's, all of its processes have ended, and no OOM kill and no refused fork was
 * counted in it. Returns false if the caller must remove it. Needs the timer of cgroup_spares_init().
 */
bool cgroup_spare_keep(struct cgroup *cgroup);

/*
 * Returns a spare leaf of the principal, or NULL. Nothing is in it, at most SPARE_BYTES are charged to it, its counters of
 * processor time and of the highest memory use began again, and these limits are set.
 */
struct cgroup *cgroup_spare_take(struct cgroups *cgroups, uint32_t principal,
                                 const struct limits *limits);

/* Removes all spare leaves, or those of a principal. Returns how many there were. */
size_t cgroup_spares_drop(struct cgroups *cgroups);
size_t cgroup_spares_drop_of(struct cgroups *cgroups, uint32_t principal);

/* 0 or -ENOMEM. cgroup_spares_done() expects that no leaf is left. */
int cgroup_spares_init(struct cgroups *cgroups, struct event_base *base);
void cgroup_spares_done(struct cgroups *cgroups);
