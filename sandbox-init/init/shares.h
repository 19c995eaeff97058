/*
 * The sessions of processes (setsid(2)) of a sandbox that no control group gives a share of the processors. The kernel gives each of
 * them one, as much as one session of the host has ("The autogroup feature" in sched(7)): so their number is bounded, and the weight
 * of each is lowered.
 */
#pragma once

#include <sys/types.h>

#include "rpc/sandbox-messages.h"

enum {
        SHARES_MAX = 16, /* sessions that have a process, that of init among them */
        /* 335 of the usual weight of 1024, as a program that was started with this nice value has where there are no autogroups. */
        SHARES_NICE = 5,
        SHARES_RETRY_MS =
                100, /* the kernel lets users change one weight in this time, on the whole machine */
        /* A sandbox that has used less processor time keeps the usual weight: the changes are left to those that compute. */
        SHARES_FREE_MS = 50,
        SHARES_LOOK_MAX_MS = 12800, /* between two looks at that time */
};

void shares_open(const struct init_hello *hello);

/* The process asks for its own session: CALL_GOES_ON (caller.h), or -EAGAIN if there are as many as may be. */
int shares_call(pid_t process);

/* Lowers the weight of a session that code has made, or of the sandbox's own once it has used SHARES_FREE_MS. Returns the
 * milliseconds until it must be called again; 0: after the next shares_call(). */
int shares_tick(void);
