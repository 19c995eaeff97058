/*
 * The limits of many processes together: those of "sandboxes", which contains the leaves of all, and of the groups of
 * principals in it, "p-<number>"; of "servers" beside it; and "supervisor", the group of Cloister's own processes, which has
 * no limit, and memory that the kernel takes last (memory.min). When all want to run, the supervisor goes before servers, and these before sandboxes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"

struct cgroup_total {
        uint64_t memory;    /* bytes */
        uint32_t cpu_milli; /* thousandths of a core; 0: as much as the groups above */
};

/* Resources of the machine, or of our own control group if that has less. */
struct cgroup_total cgroup_total_here(void);

/* The bytes that a group may have, of its directory's files; UINT64_MAX: no limit. */
uint64_t cgroup_memory_limit(int dir);

/* Sets the limits of all sandboxes (principal 0), or of those of a principal, whose group is made if there is none. All may
 * have three quarters of the processes of the machine, or of our own group, and a principal half of these. On
 * version 1, -EINVAL or -EBUSY if groups in it have more. */
int cgroups_set_total(struct cgroups *cgroups, uint32_t principal, const struct cgroup_total *total,
                      struct error *err);

/* Makes "servers" if it is not there, and sets how many bytes all servers may use together. On version 1 -EBUSY if they use
 * more. */
int cgroups_set_servers(struct cgroups *cgroups, uint64_t memory, struct error *err);

/* Moves the caller into "supervisor", until cgroups_free(), and others that are in no group below our directory. After an error
 * those that could not be moved are where they were. */
int cgroups_enter(struct cgroups *cgroups, const pid_t *others, size_t n, struct error *err);

/* Bytes that these sandboxes use; if that is more than `most`, without pages of files that the kernel can free. */
uint64_t cgroups_used(struct cgroups *cgroups, uint32_t principal, uint64_t most);

/* Whether the limit of memory of a principal was reached since the last call for it. *seen belongs to that principal, and is 0
 * when its group is made. */
bool cgroups_principal_has_reached_limit(struct cgroups *cgroups, uint32_t principal,
                                         uint64_t *seen);

/* The part of the processors that the group of a principal has beside those of other principals. */
enum cgroup_part {
        CGROUP_PART_USUAL,
        CGROUP_PART_BUSY, /* a tenth of that */
        CGROUP_PART_REST, /* what other groups leave */
};

/* Best effort. */
void cgroups_weigh(struct cgroups *cgroups, uint32_t principal, enum cgroup_part before,
                   enum cgroup_part part);
/* Microseconds of processor time that the group of a principal has used since it was made; 0: unknown. */
uint64_t cgroups_cpu_usec(struct cgroups *cgroups, uint32_t principal);

/* Removes the group of a principal, if it is empty. */
void cgroups_forget_principal(struct cgroups *cgroups, uint32_t principal);
