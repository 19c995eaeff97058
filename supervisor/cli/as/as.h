/*
 * The command line of `cloister mcp`, `serve` and `config show` with --as: options that the table of the system
 * describes are the system's, all others are Cloister's.
 */
#pragma once

#include "base/error.h"
#include "supervisor/options/options.h"

/*
 * Parses a command line, as cli_options_parse() does, and makes the config files of --as and --network. The process
 * keeps their descriptors. *status is the exit status of an error: that of the table for a wrong value of the
 * system's options and variables, EXIT_CLOISTER for a wrong table, otherwise 2. The strings in *ret live as long as
 * the process.
 */
int as_options_parse(int argc, char **argv, struct options *ret, int *status, struct error *err);
