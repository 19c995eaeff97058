/*
 * The processes of a session that stands still while a person decides, where no control group can freeze them.
 *
 * They are stopped, and it is watched that none runs: a timer of code can continue it (SIGCONT), and so can a process that was in
 * kill() as it was stopped. Any processor time that is used, and any process that is made or ends, counts as having run. init
 * reports that once, and stops them again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum hold_news {
        HOLD_NOTHING,
        HOLD_STILL, /* hold_number() is answered: none has run since all were stopped */
        HOLD_RAN,   /* once */
};

/* Stops all, if they run. The answer comes from here or from hold_tick(). number: above 0. last: the number of the newest process. */
enum hold_news hold_begin(int32_t number, pid_t last);
/* Those that were stopped continue. continues false: the caller stops or continues them. */
void hold_end(bool continues);
int32_t hold_number(void); /* of the last hold_begin(); 0: none is held */

/* When hold_tick() is due, for ppoll(); NULL: never. */
const struct timespec *hold_wait(void);
enum hold_news hold_tick(pid_t last);
