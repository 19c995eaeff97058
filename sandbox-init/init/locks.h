/*
 * File locks of a session. The worker's filter sends fcntl() with F_GETLK, F_SETLK and F_SETLKW, and
 * flock(), to init (SECCOMP_RET_USER_NOTIF). init makes the call itself, with the descriptor that it takes from
 * the caller, so that code that exchanges the descriptor or the arguments meanwhile gains nothing.
 *
 * POSIX locks belong to a table of processes, which is here: the kernel makes no object for them, and
 * they exclude no process outside the session. flock() belongs to the open file, and init calls it. Only files of the session's own
 * file systems can be locked: elsewhere, shared locks have no effect, and others get ENOLCK. Both kinds together are at most LOCKS_MAX.
 */
#pragma once

/*
 * The same listener gets sysinfo(), statfs() and fstatfs(), which tell how many processes the machine has, and how much
 * memory and disk is free. init's answer to the first has the memory limit of the session, all of it free, how long the session
 * has existed, and one process. File systems that are not the session's own have a fixed size; if they are read-only,
 * nothing is free, otherwise all.
 *
 * It gets calls that wait for the disk of the host, where a mount is writable: fsync(), fdatasync(),
 * sync_file_range(), msync() with MS_SYNC. Their number is bounded, because the kernel charges the commits of a file
 * system's journal to no process: a call above the bound waits here. All sessions of a template have a
 * bound together, in memory that their inits share.
 */

#include <stdbool.h>

#include "rpc/sandbox-messages.h"

enum {
        LOCKS_MAX = 4096,
        LOCKS_WAITERS_MAX = 256, /* calls that wait for a lock */
        LOCKS_RETRY_MS =
                10, /* a lock also ends when a file is closed, which the kernel does not report */
        SYNCS_PER_S = 100,
        SYNCS_AT_ONCE = 16,       /* after a rest */
        SYNCS_OF_ALL_PER_S = 400, /* of all sessions of the template */
        SHARED_DISK_GIB = 1024,   /* the size of each file system of the host */
};

/* listener: owned; negative: the kernel gave none, and each call for a lock fails with ENOSYS. Negative errno without
 * INIT_SYNCS_FD. */
int locks_open(int listener, const struct init_hello *hello);

/* The descriptor to poll for POLLIN; negative: none. */
int locks_fd(void);

/* Answers one call. */
void locks_serve(void);

/* Tries the calls that wait again. Returns whether some still wait. */
bool locks_retry(void);
