/*
 * The processes of a session that waits for a call: they are stopped for most of the time, where no control group has them run
 * only on processors that other processes leave idle; and those that an interrupted cell has started are killed.
 *
 * A process must not lower its priority for a while: RLIMIT_NICE forbids the way back, and a weight of autogroups can be changed
 * once in 100 ms. Stopping takes effect at once, on any number of processes. A timer can undo it: what such a timer has continued again
 * and again is killed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct rest_spared {
        bool (*is_copy)(pid_t pid); /* or init */
        pid_t worker;
};

/* Calls f for each process; returns the sum of what it returned, or 1 if the list cannot be read. */
size_t rest_each(size_t (*f)(pid_t pid, void *data), void *data);

/* Stops all processes but init, and notes which ones were stopped already. */
void rest_stop(void);
/* Stops those that have been continued or made since. */
void rest_stop_again(void);
/* Continues all except those that were stopped before rest_stop(). */
void rest_continue(void);
/* How many processes are not stopped. Those in uninterruptible system calls stop before they run code again: they count if
 * `stuck`. */
size_t rest_count_running(bool stuck);

/* Figures that change if any process except init runs. */
struct rest_reading {
        int64_t cpu; /* ns, of all threads */
        size_t n;    /* processes */
        pid_t last;  /* the newest process or thread */
};
struct rest_reading rest_read(pid_t last);
/* The processor time of all processes except init, and of those that they and init have waited for. */
int64_t rest_used_ns(void);

/* From now on all processes together may use `ms` of processor time; INT32_MAX: as much as they get. */
void rest_begin(int32_t ms, pid_t last);
/* All run as before; continues false: the caller stops or continues them. */
void rest_end(bool continues);
/* When rest_tick() is due, for ppoll(). */
const struct timespec *rest_wait(void);
/* last: the number of the newest process, or 0. Returns how many processes have been stopped because the time is used up, once. */
size_t rest_tick(const struct rest_spared *spared, pid_t last);

/* Kills the processes that the worker has started since this clock tick, and what these have started, except `spared`. A
 * copy that init has not accepted ends too: it is of a block of the interrupted cell.
 * since: clock ticks since the start of the machine, modulo 2^31. */
void rest_sweep(const struct rest_spared *spared, int32_t since);
