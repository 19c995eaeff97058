/* The exit status of `cloister run` and `cloister exec`. */
#pragma once

#include <stdbool.h>

#include "supervisor/session/cell/cell.h"

enum {
        EXIT_TIMEOUT = 124,   /* as timeout(1) */
        EXIT_CANCELLED = 130, /* 128 + SIGINT */
};

/* no_sandbox: this machine refuses a step of making one. */
int exit_code_of(const struct cell_outcome *outcome, bool no_sandbox);
