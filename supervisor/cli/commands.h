/* The commands of `cloister`, one row each, and the command line: `cloister COMMAND …`. */
#pragma once

#include "supervisor/cli/command/command.h"

extern const struct cli_commands cli_commands;

/* Runs the command that the arguments name. Returns the exit status: 0, 1 when something failed, 2 when the command line is wrong. Does not
 * return if this process becomes the monitor or the doctor. */
int cli_main(int argc, char **argv);
