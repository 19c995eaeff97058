/* All processes of the sandbox, as PID 1 lists them in INIT_PROC_FD. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* The number that the kernel has given to the newest process or thread, also if that has ended. 0: unknown. */
pid_t processes_last(void);

/* Sends SIGKILL to all processes except PID 1 and these. Returns how many there were; 1 if the list cannot be read. */
size_t processes_kill_others(const pid_t *spared, size_t n);
