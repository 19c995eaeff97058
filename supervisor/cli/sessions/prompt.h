/* The prompt of `cloister exec -i` and `cloister run -i`. */
#pragma once

#include "supervisor/cli/sessions/owner-cell.h"

/* Reads lines and runs them until the end of input or exit(). Returns the exit status. */
int prompt_run(struct owner_cells *cells, struct server_link *link);
