/* Where this process is in each cgroup hierarchy, from /proc/self/mountinfo and
 * /proc/self/cgroup. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum cgroup_controller {
        CGROUP_MEMORY = 1 << 0,
        CGROUP_PIDS = 1 << 1,
        CGROUP_CPU = 1 << 2,
        CGROUP_CPUACCT = 1 << 3,
        CGROUP_UNIFIED = 1 << 4, /* the version 2 tree, with any controllers */
};

enum { CGROUP_PLACES_MAX = 8 };

/* A mounted hierarchy that shows our group. */
struct cgroup_place {
        unsigned controllers; /* of enum cgroup_controller; version 1 mounts may hold several */
        bool nsdelegate;      /* version 2: mounted with this option (cgroups(7)) */
        char mount[PATH_MAX]; /* the mount point */
        char own[PATH_MAX];   /* our own cgroup's directory, at or below mount */
};

struct cgroup_places {
        struct cgroup_place items[CGROUP_PLACES_MAX];
        size_t count;
};

/* Parses the texts of both files. Hierarchies without these controllers are left out. */
void cgroup_places_parse(const char *mountinfo, const char *self, struct cgroup_places *ret);

/* Reads both files. *ret is owned by the caller (free()). */
int cgroup_places_read(struct cgroup_places **ret, struct error *err);

/* The place of a controller, or NULL. */
const struct cgroup_place *cgroup_place_of(const struct cgroup_places *places,
                                           enum cgroup_controller controller);
