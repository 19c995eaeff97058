/* A program behind two pipes. */
#pragma once

#include <sys/types.h>

/* Starts a command, which is looked up in PATH. *ret_in is what it reads, *ret_out what it writes;
 * other programs do not inherit them. Returns its pid or a negative errno value. */
pid_t child_start(char **command, int *ret_in, int *ret_out);
