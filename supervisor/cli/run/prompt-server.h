/* `cloister run -i`: a prompt, and a server for it. */
#pragma once

#include "supervisor/cli/command/command.h"

/* The start of `cloister run -i`. All members are borrowed. */
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
