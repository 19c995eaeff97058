/*
 * File locks of a session: fcntl() with F_GETLK, F_SETLK and F_SETLKW, and flock().
 *
 * POSIX locks belong to a table of processes, which is here: the kernel makes no object for them, and
 * they exclude no process outside the session. flock() belongs to the open file, and init calls it. Only files of the session's own
 * file systems can be locked: elsewhere, shared locks have no effect, and others get ENOLCK. Both kinds together are at most LOCKS_MAX.
 * In directories of the host whose mount allows it, locks exclude others, too (host-locks.h).
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>

#include "rpc/sandbox-messages.h"
#include "sandbox-init/init/caller.h"

enum { LOCKS_MAX = 4096 };

void locks_open(const struct init_hello *hello);

/* Returns what the call returns, or CALL_WAITS. others_wait: calls of other processes wait for locks. */
int locks_call(const struct caller *caller, const struct seccomp_data *data, bool others_wait);

/* Releases the locks that programs of the host would wait for although the process has left them. Returns the milliseconds until it must
 * be called again; 0: never. */
int locks_end_stale(void);

/* Whether a call since the last question has freed what others may wait for. */
bool locks_have_freed(void);
