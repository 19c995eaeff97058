/* PID 1 of a sandbox. */
#pragma once

/* Returns the exit status. Descriptors as in rpc/sandbox-messages.h, INIT_*_FD. */
int init_main(void);
