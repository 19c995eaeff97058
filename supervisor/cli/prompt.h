/* The prompt of `cloister exec -i` and `cloister run -i`. */
#pragma once

#include "supervisor/cli/options.h"
#include "supervisor/cli/owner-cell.h"

/* Reads lines and runs them until the end of input or exit(). Returns the exit status. */
int prompt_run(struct owner_cells *cells, struct server_link *link);

/* What `cloister run -i` begins with. All is borrowed. */
struct prompt_start {
        const struct options *options;
        const char *name, *code; /* run first, and what tracebacks call it; NULL: none */
        size_t length;
        const char *script; /* JSON of the SCRIPT frame */
        const char *mounts; /* of --mount, or NULL */
        int in;             /* a stream of files for /workspace, or -1 */
};

/* A server of its own, with one session. Returns the exit status. */
int prompt_with_server(const struct prompt_start *start);
