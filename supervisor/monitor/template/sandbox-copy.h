/* The copies of a sandbox's worker (docs/cells.md). */
#pragma once

#include "supervisor/monitor/template/sandbox-control.h"

/* Adds to the memory limit of a control group: page tables and first pages of the forks that Cloister makes of a worker for a
 * copy or a branch. Without it the OOM killer would end the worker of a session that is just below its limit: that has the
 * same memory as the fork. */
uint64_t sandbox_reserve(const struct sandbox *sandbox);

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

/* After host->cleared(): the copy is the worker. */
int sandbox_wake(struct sandbox *sandbox, bool rolls_back);

/* Answers sandbox_keep(), if it is unanswered: 0, init has taken the copy, or negative errno. */
void sandbox_end_keep(struct sandbox *sandbox, int r);
/* Init reported that a process has ended. Calls host->gone() if it was a copy. */
void sandbox_note_gone(struct sandbox *sandbox, pid_t pid);
/* This copy has become the worker: it and those that are aside leave the list. */
void sandbox_promote_copy(struct sandbox *sandbox, pid_t pid);
void sandbox_forget_copies(struct sandbox *sandbox);
