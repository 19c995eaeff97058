/* `cloister exec`. */
#pragma once

#include "supervisor/cli/command/command.h"
#include "supervisor/cli/sessions/owner-cell.h"

int cli_exec(const struct options *o, const char *const *words, size_t n);

/* The prompt of -i: reads lines and runs them until the end of input or exit(). Returns the exit status. */
int prompt_run(struct owner_cells *cells, struct server_link *link);
