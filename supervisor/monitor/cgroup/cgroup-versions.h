/* The two versions of control groups. */
#pragma once

#include "supervisor/monitor/cgroup/cgroup-files.h"

extern const struct cgroup_operations cgroup1_operations, cgroup2_operations;

/* Return 0; -EOPNOTSUPP: not mounted here; another error: mounted, but we may not use it (*why). */
int cgroup1_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why);
int cgroup2_open(struct cgroups *cgroups, const struct cgroup_places *places, struct error *why);

/* Enables the controllers for the children of a group; cpu only if available. */
int cgroup2_enable(int dir_fd, const char *path, struct error *why);
