/* `--attest` of `cloister mcp` and `cloister serve`: has the doctor attack a sandbox before anything is served. */
#pragma once

#include "base/error.h"
#include "supervisor/cli/command/command.h"

/* Returns a sealed memfd with the report of `cloister doctor --attack --json`; the caller owns it.
 * If anything is open, it is an error that names it; *status is then the exit status, 1 or
 * EXIT_NO_SANDBOX. */
int attest_run(const struct options *options, int *status, struct error *err);
