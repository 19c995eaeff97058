/* The code of `cloister run`: from a file, standard input or an argument. */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { SCRIPT_SIZE_MAX = 16 * 1024 * 1024 };

/* Reads a file ("-": standard input) of at most SCRIPT_SIZE_MAX bytes; a byte order mark at its
 * start is dropped. *ret is owned by the caller. Text that is not UTF-8 is an error that names the
 * line. */
int script_read(const char *path, char **ret, size_t *length, struct error *err);

/* Takes the code of -c, if it is not NULL; otherwise reads the file. */
int script_take(const char *code, const char *path, char **ret, size_t *length, struct error *err);

/* The UTF-8 check alone. name is for the message. */
int script_check(const char *name, const char *text, size_t length, struct error *err);
