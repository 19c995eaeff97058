/* PID 1 of a sandbox. */
#pragma once

/* Returns the exit status. Descriptors as in policy/sandbox-plan.h, INIT_*_FD. */
int init_main(void);
