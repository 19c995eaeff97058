/* `cloister --help` and `cloister help`. */
#pragma once

#include "supervisor/cli/command/command.h"

/* Prints help about all commands (n is 0), a group ("image") or a command. Returns the exit status. */
int help_print(const struct cli_commands *commands, const char *const *words, size_t n);
