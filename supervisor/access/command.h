/* The command that prints a token. */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { ACCESS_TOKEN_MAX = 16 * 1024 };

/* Returns the first line that a program prints in `to`. argv ends with NULL. input: for its
 * standard input. ms: when it has not ended by then, it is killed with its process group. */
int access_run(char *const *argv, const char *input, unsigned ms, char *to, size_t size,
               struct error *err);
