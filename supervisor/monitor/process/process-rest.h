/* Whether processes have run since they were looked at before. */
#pragma once

#include <stdint.h>

/*
 * A number for the processes that a procfs shows: as long as it is the same, none of them has run, and
 * none was added. 0: one of them runs now, or they have too many threads for a look of less than a
 * millisecond.
 */
uint64_t process_rest(int proc);
