/* Completion of `cloister` in shells. */
#pragma once

#include "supervisor/cli/command/command.h"

/* Prints the script for bash, zsh or fish. Returns the exit status. */
int completion_print(const struct cli_commands *commands, const char *shell);

/* `cloister names`: prints the names of images or sessions, one per line, for these scripts. */
int cli_names(const struct options *o, const char *const *words, size_t n);
