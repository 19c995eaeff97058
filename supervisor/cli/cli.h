/*
 * The command line: `cloister COMMAND …`. Parses arguments, reads the code of `cloister run`, and
 * becomes cloister-monitor by exec. Images are built and listed in this process.
 */
#pragma once

#include "supervisor/cli/command/command.h"

/* Returns the exit status: 0, 1 when something failed, 2 when the command line is wrong. Does not
 * return if this process becomes the monitor or the doctor. */
int cli_main(const struct cli_commands *commands, int argc, char **argv);
