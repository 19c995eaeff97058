/*
 * Which of the system calls that Cloister needs a seccomp filter around it refuses.
 *
 * A filter's refusal and the kernel's look the same to the caller. So a child loads a filter of its
 * own that sends these calls to the doctor (SECCOMP_RET_USER_NOTIF) and makes each of them: the doctor
 * answers with EDOM, and the kernel never carries them out. Any other error comes from a filter that
 * was there before, whose SECCOMP_RET_ERRNO takes precedence.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DOCTOR_CALLS_MAX = 32 };

struct doctor_calls {
        bool known; /* false: the kernel has no such notifications, or another filter uses them */
        int codes[DOCTOR_CALLS_MAX]; /* by the index of the call: 0, or the errno of the refusal */
};

size_t doctor_n_calls(void);
const char *doctor_call_name(size_t i);
/* Without it no sandbox can be created; without the others, something is weaker. */
bool doctor_call_is_needed(size_t i);

void doctor_calls_try(struct doctor_calls *ret);

/* Writes "clone3 (ENOSYS), setns (EPERM)" of the refused calls, needed or not. Returns how many. */
size_t doctor_calls_list(const struct doctor_calls *calls, bool needed, char *ret, size_t size);
