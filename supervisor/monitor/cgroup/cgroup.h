/*
 * The control group of a sandbox, with one interface for version 2, for version 1 (with a version 2
 * leaf to kill and freeze), and for machines without.
 *
 * cgroups_open() finds out by trying what this process may use. The groups are <our
 * cgroup>/cloister-<pid>-<start time>/sandboxes/s-<n>, of a principal …/sandboxes/p-<n>/s-<n>, and servers/u-<n> beside
 * "sandboxes".
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/limits.h"
#include "rpc/monitor-messages.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"

struct cgroups; /* the hierarchies and our parent directory in each */
struct cgroup;  /* one sandbox's leaf */

/* Missing permission is not an error: the version is CGROUP_NONE then, and *why says what to change.
 * is_ours: our present group contains only our processes, because a scope was made for us, or because we may stay. */
int cgroups_open(bool is_ours, struct cgroups **ret, struct error *why, struct error *err);
/* CGROUP_NONE, but version 2 is mounted: a delegated group would help. */
bool cgroups_want_delegation(const struct cgroups *cgroups);
/* Our present group is a unit of the user manager, with our processes only: usable, but only the manager knows whether the unit has
 * Delegate=yes. Without it, systemd stops the unit when the OOM killer ends a session (OOMPolicy= in systemd.service(5)). */
bool cgroups_may_stay(const struct cgroups *cgroups);
/* Removes all leaves and, as far as we may, our parent directories. At the root of a mount only
 * the janitor may. */
struct cgroups *cgroups_free(struct cgroups *cgroups);
enum cgroup_version cgroups_version(const struct cgroups *cgroups);
bool cgroups_bounds_cpu(
        const struct cgroups *cgroups); /* memory and pids are bounded in any case */

/* Whether the limits of a group also hold for a process that has our own id and makes a cgroup
 * namespace in it. Such a process may mount the tree, and owns the files of the limits. */
bool cgroups_hold_owner(const struct cgroups *cgroups);

/* From now on a timer removes the leaves whose processes had not ended in cgroup_free(). The base
 * must outlive the cgroups. 0 or -ENOMEM. */
int cgroups_set_loop(struct cgroups *cgroups, struct event_base *base);

/* The paths of our parent directories (absolute, at most `most`). */
size_t cgroups_paths(const struct cgroups *cgroups, const char **paths, size_t most);

/* The paths that these may have, as far as we may write there, before cgroups_open(), for a
 * janitor that starts first. *ret: a NULL-terminated list of strings, owned by the caller
 * (cgroups_candidates_free()). */
int cgroups_candidates(char ***ret, struct error *err);
void cgroups_candidates_free(char **list);

/* Makes a leaf with these limits; NULL: without limits. id: of a session, or 0 for a template. */
int cgroup_new(struct cgroups *cgroups, uint32_t id, const struct limits *limits,
               struct cgroup **ret, struct error *err);
/* The same in the group of a principal, after cgroups_set_total() (0: none). */
int cgroup_new_of(struct cgroups *cgroups, uint32_t principal, uint32_t id,
                  const struct limits *limits, struct cgroup **ret, struct error *err);
/* A leaf without limits for an upstream server, after cgroups_set_servers(). */
int cgroup_new_server(struct cgroups *cgroups, struct cgroup **ret, struct error *err);
/* Kills all processes in it and removes it, without waiting for them. */
struct cgroup *cgroup_free(struct cgroup *cgroup);

/* Changes the limit of memory. On version 1 -EBUSY if more is used. */
int cgroup_set_memory(struct cgroup *cgroup, uint64_t bytes, struct error *err);
/* Sets the maximum of processes. Best effort. */
void cgroup_set_pids(struct cgroup *cgroup, uint32_t pids);

int cgroup_kill(struct cgroup *cgroup); /* with cgroup.kill; -EOPNOTSUPP without it */

/* Freezes or thaws all processes in it. They stop soon after, those in a system call at its next
 * safe point. SIGKILL ends frozen ones. -EOPNOTSUPP without a version 2 leaf. */
int cgroup_freeze(struct cgroup *cgroup, bool frozen);
/* Whether all of them have stopped. A process in an uninterruptible system call does not count as stopped. */
bool cgroup_is_frozen(const struct cgroup *cgroup);

/* Gives its processes only what no other group of the machine's processors takes, or their usual part. Negative errno if it
 * has no controller for that. */
int cgroup_rest(struct cgroup *cgroup, bool rests);
/* Whether it has one: a share of the processors of its own. */
bool cgroup_has_share(const struct cgroup *cgroup);
/* Gives a group that is not at rest a tenth of the usual weight, or the usual one. Returns 0 or negative errno. */
int cgroup_be_busy(struct cgroup *cgroup, bool is_busy);
/* How many processes are in it, at most some thousand; 0 without a version 2 leaf. */
size_t cgroup_count(const struct cgroup *cgroup);

/* Opens the usage files among fds (owned by the caller) and leaves the others as they are. After
 * an error some may be open. */
int cgroup_open_usage(struct cgroup *cgroup, int fds[SESSION_FDS], struct error *err);

uint64_t cgroup_cpu_usec(struct cgroup *cgroup);
uint64_t cgroup_memory_now(const struct cgroup *cgroup);
uint64_t cgroup_memory_peak(struct cgroup *cgroup);
/* Bytes of anonymous memory that are charged to the group, at most: the kernel's figure and what it may lack. UINT64_MAX:
 * unknown. */
uint64_t cgroup_anonymous(struct cgroup *cgroup);
uint32_t cgroup_oom_kills(struct cgroup *cgroup);
/* Whether the group's own limit of memory was reached, since the last call with *seen (0 at first) or on version 1 since the
 * peak was reset. An OOM kill without this was because of a limit above. */
bool cgroup_has_reached_limit(const struct cgroup *cgroup, uint64_t *seen);
/* How often a process was refused because of the maximum of processes. */
uint64_t cgroup_pids_refused(struct cgroup *cgroup);

/* Moves a process into the leaf in all hierarchies. Takes back ownership that cgroup_lend() gave
 * away of this leaf. Other leaves that are lent remain so. */
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
