/* The code of `cloister run`, as a file, standard input or an argument gave it. */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { SOURCE_MAX = 16 * 1024 * 1024 };

/* Reads a file ("-": standard input) of at most SOURCE_MAX bytes; a byte order mark at its start is
 * dropped. *ret is owned by the caller. Text that is not UTF-8 is an error that names the line. */
int source_read(const char *path, char **ret, size_t *length, struct error *err);

/* The same check alone. name is for the message. */
int source_check(const char *name, const char *text, size_t length, struct error *err);
