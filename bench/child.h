/* Starts a program with pipes. */
#pragma once

#include <sys/types.h>

/* Starts a command, which is searched in PATH. *ret_in is the write end of its standard input,
 * *ret_out the read end of its standard output; both are O_CLOEXEC. Returns its pid or a negative
 * errno value. */
pid_t child_start(char **command, int *ret_in, int *ret_out);
