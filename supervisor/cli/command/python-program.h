/* A short program that a python3 of the machine runs with a file as its standard input. */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { PYTHON_MISSING = 120 };

/* It loads no other code (-I: no environment variables, no user directory; -S: no site-packages).
 * python: a name in PATH, or a path. Returns its exit status, PYTHON_MISSING if it cannot be run, or
 * negative errno; *ret is what it printed, and the caller frees it. */
int python_program_run(const char *python, const char *program, const char *path, char **ret,
                       size_t *length, struct error *err);
