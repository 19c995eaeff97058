/* `cloister manual`. */
#pragma once

#include "supervisor/cli/command/command.h"

/* Prints the manual page of `cloister` (n is 0) or of a command. Returns the exit status. */
int manual_print(const struct cli_commands *commands, const char *const *words, size_t n);
