/*
 * One sandbox's control group, behind one interface for version 2, version 1 with a version 2 leaf
 * to kill, and none.
 *
 * cgroups_open() finds out by trying what this process may use. The tree is <our
 * cgroup>/cloister-<pid>/s-<n>.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/limits.h"
#include "rpc/monitor-messages.h"

struct cgroups; /* the hierarchies and our parent directory in each */
struct cgroup;  /* one sandbox's leaf */

enum cgroup_version { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

/* Never fails for want of permission: the version is then CGROUP_NONE and *why tells what to
 * change. is_ours: our group and all that is in it are ours, since a scope was made for us. */
int cgroups_open(bool is_ours, struct cgroups **ret, struct error *why, struct error *err);
/* CGROUP_NONE, and all that is missing is that somebody delegates us a group. */
bool cgroups_want_delegation(const struct cgroups *cgroups);
/* Removes all leaves and, where we still may, our parent directories (at a mount's root the janitor
 * has to). */
struct cgroups *cgroups_free(struct cgroups *cgroups);
enum cgroup_version cgroups_version(const struct cgroups *cgroups);
bool cgroups_bounds_cpu(
        const struct cgroups *cgroups); /* memory and pids are bounded in any case */

/* From now on a timer removes the leaves whose processes had not ended in cgroup_free(). The base
 * must outlive the cgroups. 0 or -ENOMEM. */
int cgroups_set_loop(struct cgroups *cgroups, struct event_base *base);

/* The paths of our parent directories (absolute, at most `most`), for the janitor that outlives us.
 */
size_t cgroups_paths(const struct cgroups *cgroups, const char **paths, size_t most);

/* Where they may come to lie, as far as we may write there, before cgroups_open(): so that a
 * janitor can be there first. *ret: a list of strings, NULL-terminated, both owned by the caller
 * (cgroups_candidates_free()). */
int cgroups_candidates(char ***ret, struct error *err);
void cgroups_candidates_free(char **list);

/* A leaf with these limits set; NULL: without any. */
int cgroup_new(struct cgroups *cgroups, uint32_t id, const struct limits *limits,
               struct cgroup **ret, struct error *err);
/* Kills all processes in it and removes it, without waiting for them. */
struct cgroup *cgroup_free(struct cgroup *cgroup);

/* Moves a process into the leaf, in all hierarchies in a row. What was lent is taken back first. */
int cgroup_add(struct cgroup *cgroup, pid_t pid, struct error *err);

/*
 * Version 2: lets a process of these host ids, which is in a leaf of ours itself, clone another one
 * into this leaf. For that cgroup.procs of the leaf and of our parent directory are made theirs,
 * and nothing else. Returns an O_PATH descriptor of the leaf, from which only our leaves can be
 * reached and none can be written to, or negative errno: -EOPNOTSUPP on version 1, -EPERM without
 * CAP_CHOWN for ids that are not ours.
 */
int cgroup_lend(struct cgroup *cgroup, uid_t uid, gid_t gid);

int cgroup_dir(const struct cgroup *cgroup); /* version 2: borrowed; -1: version 1 */

/* Version 2: whether a process that lives is in the leaf. */
bool cgroup_holds(const struct cgroup *cgroup, pid_t pid);

/* Version 2: its share where the processor is short, over its siblings'. Best effort. */
void cgroup_prefer(struct cgroup *cgroup);

int cgroup_kill(struct cgroup *cgroup); /* everything in it, by cgroup.kill; -EOPNOTSUPP where there
                                           is none */

/* Stops everything in it, or lets it go on; processes stop soon after, those in a system call at
 * its next safe point. SIGKILL ends them in either case. -EOPNOTSUPP where there is no version 2
 * leaf.
 */
int cgroup_freeze(struct cgroup *cgroup, bool frozen);

/* Opens the descriptors that hold facts (owned by the caller); the others stay as they are. After
 * an error some may be open. */
int cgroup_open_usage(struct cgroup *cgroup, int fds[SESSION_FDS], struct error *err);

uint64_t cgroup_cpu_usec(struct cgroup *cgroup);
uint64_t cgroup_memory_peak(struct cgroup *cgroup);
uint32_t cgroup_oom_kills(struct cgroup *cgroup);
