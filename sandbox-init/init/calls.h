/*
 * The calls of code that init makes or answers, because the worker's filter sends them to its listener (SECCOMP_RET_USER_NOTIF): those
 * of locks.h, figures.h, machine-files.h, shares.h and syncs.h. init uses the descriptor that it takes from the caller, so that code which exchanges the
 * descriptor or the arguments meanwhile gains nothing.
 */
#pragma once

#include <linux/types.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#include "rpc/sandbox-messages.h"

/* SECCOMP_IOCTL_NOTIF_SET_FLAGS, with SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1): not in all headers. */
#define CALLS_IN_TURN _IOW('!', 4, __u64)

enum {
        CALLS_WAITERS_MAX = 256,
        CALLS_RETRY_MS =
                10, /* a lock also ends when a file is closed, which the kernel does not report */
};

/* listener: owned; negative: the kernel gave none, and each of these calls fails with ENOSYS, if the filter
 * does not allow it instead. is_copy: as for machine_open(). Negative errno without INIT_SYNCS_FD. */
int calls_open(int listener, const struct init_hello *hello, bool (*is_copy)(pid_t pid));

/* The descriptor to poll for POLLIN; negative: none. */
int calls_fd(void);

/* Answers one call. */
void calls_serve(void);

/* A child of init has ended. */
void calls_child_ended(pid_t pid, int status);

/* Tries the calls that wait again, and does what is due by time (shares_tick()). Returns the milliseconds until it must be called
 * again; 0: when something happens. */
int calls_retry(void);
