/* `cloister --help`, `cloister help` and `cloister manual`: what is printed from the table of commands. */
#pragma once

#include "supervisor/cli/command/command.h"

/* Prints help about all commands (n is 0), a group ("image") or a command. Returns the exit status. */
int help_print(const struct cli_commands *commands, const char *const *words, size_t n);

/* Prints the manual page of `cloister` (n is 0) or of a command. Returns the exit status. */
int manual_print(const struct cli_commands *commands, const char *const *words, size_t n);
