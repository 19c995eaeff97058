/* The processes in a leaf: moved there by us, or cloned into it by a template. */
#pragma once

#include "supervisor/monitor/cgroup/cgroup-files.h"

/* Moves a process into the leaf in all hierarchies. Takes back ownership that cgroup_lend() gave
 * away. */
int cgroup_add(struct cgroup *cgroup, pid_t pid, struct error *err);

/*
 * Version 2: lets a process with these host ids, which is itself in one of our leaves, clone
 * another one into this leaf. For that it becomes the owner of cgroup.procs of the leaf and of our
 * parent directory, and of nothing else. Returns an O_PATH descriptor of the leaf; it gives access
 * to the names of our leaves only, and not for writing. Negative errno: -EOPNOTSUPP on version 1,
 * -EPERM without CAP_CHOWN for ids that are not ours.
 */
int cgroup_lend(struct cgroup *cgroup, uid_t uid, gid_t gid);

int cgroup_dir(const struct cgroup *cgroup); /* version 2: borrowed; -1: version 1 */

/* Version 2: whether a living process is in the leaf. */
bool cgroup_holds(const struct cgroup *cgroup, pid_t pid);

/* Version 2: raises its cpu.weight above that of its siblings. Best effort. */
void cgroup_prefer(struct cgroup *cgroup);
