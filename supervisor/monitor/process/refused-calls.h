/*
 * Which of the system calls that Cloister needs a seccomp filter around it refuses.
 *
 * A filter's refusal and the kernel's look the same to the caller. So a child loads a filter of its
 * own that sends these calls to the caller (SECCOMP_RET_USER_NOTIF) and makes each of them: the caller
 * answers with EDOM, and the kernel never carries them out. Any other error comes from a filter that
 * was there before, whose SECCOMP_RET_ERRNO takes precedence.
 *
 * The doctor prints the list. The monitor uses it after a failure: a refused call shows up as another
 * error at each place, and not always in the process that made it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { REFUSED_CALLS_MAX = 96 };

struct refused_calls {
        bool known; /* false: the kernel has no such notifications, or another filter uses them */
        int codes[REFUSED_CALLS_MAX]; /* by the index of the call: 0, or the errno of the refusal */
};

/* NULL after the last one. */
const char *refused_call_name(size_t i);

/* Whether a filter is around this process at all. */
bool refused_calls_filtered(void);
void refused_calls_try(struct refused_calls *ret);

/* Writes "clone3 (ENOSYS), setns (EPERM)" of the refused calls: those without which no sandbox can be
 * created, or those without which something is weaker. Returns how many. */
size_t refused_calls_list(const struct refused_calls *calls, bool needed, char *ret, size_t size);
