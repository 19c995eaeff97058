/* The command that prints a token, or the value of a secret. */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { ACCESS_TOKEN_MAX = 16 * 1024 };

struct access_command {
        const char *what;  /* begins each error */
        char *const *argv; /* ends with NULL */
        const char *input; /* for its standard input */
        unsigned ms;       /* if it has not ended by then, it is killed with its process group */
};

/* Returns the first line that a program prints in `to`. */
int access_run(const struct access_command *command, char *to, size_t size, struct error *err);
