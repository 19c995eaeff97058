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

#include <errno.h>
#include <stdbool.h>

enum { THREADS_MAX = 64, THREADS_EXIT_FAILED = 115 };

#if defined(__x86_64__)

/*
 * Holds all other threads of this process. All signals must be blocked. Between this and threads_release() nothing may wait for another thread,
 * as malloc() or Python may. Returns how many are held; 0: there are no others; if none is held, the negative id of one that has no
 * thread of libc, computes for 20 ms, blocks the signal, waits for 20 ms in a system call that cannot be begun again, or is beyond THREADS_MAX.
 * in_place: threads that wait in the handler since the last hold may be held there, which costs next to nothing.
 */
long threads_hold(bool in_place);

/* In the process that holds them. Does nothing if it holds none. Returns false if one that was held in place has run: a fork that was made since is not
 * to be used. */
bool threads_release(void);

/* Whether this is the memory of a process that held its threads, which do not run here. */
bool threads_are_missing(void);

/* Forks this process while its threads are held or missing. Returns the pid, 0 in the fork, or negative errno. */
long threads_fork(void);

/* In a fork, while threads are missing: notes the locks that they hold, by what lock-owners.h says, unless it has done so. Before threads_return(), and before
 * the memory is written for a branch. */
void threads_note_locks(void);

/* In a fork or a branch, which is the worker now: makes the missing threads again. Ends the process if that is not possible. */
void threads_return(void);

#else

#define threads_hold(in_place) 0L
#define threads_release()      true
#define threads_are_missing()  false
#define threads_fork()         (-(long)ENOSYS)
#define threads_note_locks()   ((void)0)
#define threads_return()       ((void)0)

#endif
