/* Our own executables, found beside the running one, else where they are installed. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* The path of one of them ("cloister", "cloister-init"…). */
int program_path(const char *name, char *ret, size_t size, struct error *err);

/* One as a sealed memfd: what enters a sandbox is never reachable as a file. */
int program_sealed(const char *name, struct error *err);
