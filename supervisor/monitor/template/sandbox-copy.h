/* The copies of a sandbox's worker (docs/cells.md). */
#pragma once

#include "supervisor/monitor/template/sandbox.h"

struct sandbox_copy;

/* Finds the child of init that has this pid in its own pid namespace, and opens its directory of /proc. Returns 0, or -ESRCH:
 * no such child. */
int sandbox_find_child(pid_t init, pid_t pid, struct sandbox_copy *ret);

/*
 * Takes a child of init, of this pid in the sandbox, for a copy of the worker that replaces the copies
 * `instead` (0: none), and counts its memory (docs/cells.md). Returns 0: host->kept() follows; -EBUSY: an
 * earlier answer is missing; -ESRCH: there is no such child; -ENOMEM: all copies have more memory than
 * the limit, and it is killed. is_aside: it takes the worker's place only if sandbox_restore() names it.
 * serial: of the request, not 0.
 */
int sandbox_keep(struct sandbox *sandbox, pid_t pid, bool is_aside,
                 const pid_t instead[INIT_INSTEAD_MAX], uint32_t serial);

/* Ends that copy. -ESRCH: there is no such copy. */
int sandbox_drop(struct sandbox *sandbox, pid_t pid);

/* Kills the worker, for this copy to take its place, 0: the newest. host->cleared() or host->ended()
 * follows. -ESRCH: there is no such copy. */
int sandbox_restore(struct sandbox *sandbox, pid_t pid);
