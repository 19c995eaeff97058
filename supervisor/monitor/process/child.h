/* First steps of a process forked from the monitor, whether it execs or not (reaper, janitor). */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { CHILD_KEEP_MAX = 24 };

/* Closes every descriptor but these (at most CHILD_KEEP_MAX, any order). */
void child_close_all_but(const int *keep, size_t n);

/* Sets every signal to its default action and empties the mask: exec would pass on what is
 * ignored or blocked. */
void child_reset_signals(void);

/* Makes target (0, 1 or 2) a duplicate of source, without O_CLOEXEC, also when they are the same
 * number. Returns 0 or negative errno. */
int child_place_fd(int source, int target);

/* Makes the process non-dumpable (it cannot be traced, read through /proc or dump core) and sets
 * its name in ps. */
void child_hide(const char *name);

/* In the monitor: reads n bytes, or those before the end, from a pipe whose other end a child has.
 * -ETIMEDOUT if they do not come in time. */
ssize_t child_read_in_time(int fd, void *data, size_t n, unsigned int milliseconds);

/*
 * In the monitor: waits for the end of a child and reaps it. *status may be NULL. A child that does
 * not end in time is killed: -ETIMEDOUT. One that SIGKILL does not end within a second, because a file
 * system does not answer, is left: it is reaped when something else is, or by init.
 */
int child_wait_in_time(pid_t pid, unsigned int milliseconds, int *status);

/* kill(2) of a child that has not been reaped, or where a filter refuses that, the same by a pidfd. */
int child_signal(pid_t pid, int number);

/* Kills a child, and reaps it as above. */
void child_kill(pid_t pid);
