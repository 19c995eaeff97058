/* What a process forked from the monitor does first, be it to stay (reaper, janitor) or to exec. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { CHILD_KEEP_MAX = 16 };

/* Closes every descriptor but these (at most CHILD_KEEP_MAX, any order). */
void child_close_all_but(const int *keep, size_t n);

/* Every signal to its default action, and an empty mask: exec would pass on what is ignored or
 * blocked. */
void child_reset_signals(void);

/* Puts source at target (0, 1 or 2) without O_CLOEXEC, also when they are the same number. Returns
 * 0 or negative errno. */
int child_place_fd(int source, int target);

/* Not traceable, not readable through /proc, no core dump, and a name in ps. */
void child_hide(const char *name);
