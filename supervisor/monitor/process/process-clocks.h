/*
 * The CPU clocks of the processes of a sandbox: while they stand still, none of them has run, and what no process has started does
 * not exist. Reading them takes less than a microsecond each.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervisor/monitor/process/process-memory.h"

enum { PROCESS_CLOCKS_MAX = 8 };

struct process_clocks {
        size_t n; /* 0: they are not known, or too many */
        struct process_clock {
                pid_t pid;
                long inner; /* its pid in the sandbox */
                uint64_t ns;
        } of[PROCESS_CLOCKS_MAX];
};

/* Finds the descendants of init, which itself is left out: it looks at them while they rest, and takes no memory. */
void process_clocks_find(struct process_clocks *clocks, pid_t init);

/* Reads the clocks. If a process has ended, none is known. */
void process_clocks_read(struct process_clocks *clocks);

/* Whether they are those of all processes of a growth that was measured since process_clocks_read(), but init. */
bool process_clocks_are_of(const struct process_clocks *clocks,
                           const struct process_growth *growth);

/*
 * Microseconds for which processors were not idle since the machine started, less those of this process. Idle time is read in steps of
 * 10 ms. INT64_MAX: unknown.
 */
int64_t process_clocks_of_others(void);

/* Whether no process has run since process_clocks_read(). */
bool process_clocks_stand_still(const struct process_clocks *clocks);
