/* A short program that a python3 of the machine runs with a file as its standard input. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Exit statuses. WRONG: the file is not what the program needs; its output says why. */
enum { PYTHON_MISSING = 120, PYTHON_WRONG = 122 };

/* It loads no other code (-I: no environment variables, no user directory; -S: no site-packages).
 * pythons: names in PATH, or paths, ended by NULL: the first one that exits with 0 or PYTHON_WRONG counts.
 * Returns the exit status or negative errno. *ret is the program's output, ended by a NUL, and the caller
 * frees it; it must be NULL before. */
int python_program_run(const char *const *pythons, const char *program, const char *path,
                       char **ret, size_t *length, struct error *err);
