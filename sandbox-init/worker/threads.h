/*
 * Threads that come back in a copy of the worker.
 *
 * The worker holds all its other threads, forks without libc's fork(), and lets them go. The fork has no thread but its
 * first, and the memory of all of them; once it is the worker, it makes each thread again, which continues in the system call
 * in which it waited. A branch writes and reads what is needed for that with its memory.
 *
 * x86-64 with glibc. Elsewhere no thread can be held.
 */
#pragma once

#include <stdbool.h>

enum { THREADS_MAX = 64, THREADS_EXIT_FAILED = 115 };

/*
 * Holds all other threads of this process. All signals must be blocked. Between this and threads_release() nothing may wait for another thread,
 * as malloc() or Python may. Returns how many are held; 0: there are no others; -1: none is held, because one of them has no
 * thread of libc, computes, blocks the signal or waits in a system call that cannot be begun again, or there are more than THREADS_MAX.
 */
long threads_hold(void);

/* For threads_last(): a copy is made without threads_hold(). */
void threads_hold_none(void);

/* In the process that holds them. Does nothing if it holds none. */
void threads_release(void);

/* Of the last threads_hold(): how many were held, or the negative id of the one that could not be held. */
long threads_last(void);

/* Whether this is the memory of a process that held its threads, which do not run here. */
bool threads_are_missing(void);

/* Forks this process while its threads are held or missing. Returns the pid, 0 in the fork, or negative errno. */
long threads_fork(void);

/* In a fork, while threads are missing: notes the locks that they hold, by what lock-owners.h says. Before threads_return(), and before the memory is written
 * for a branch. */
void threads_note_locks(void);

/* In a fork or a branch, which is the worker now: makes the missing threads again. Ends the process if that is not possible. */
void threads_return(void);
