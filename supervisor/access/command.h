/* The command that prints a token. */
#pragma once

#include "supervisor/access/access.h"

/* Returns the first line that a program prints in `to`. argv: a JSON array of strings. input: for its
 * standard input. ms: when it has not ended by then, it is killed with its process group. */
int access_run(yyjson_val *argv, const char *input, unsigned ms, char *to, size_t size,
               struct error *err);
