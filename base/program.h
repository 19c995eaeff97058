/* Finds the executables of Cloister: beside the running one, else where they are installed. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* The path of one of them ("cloister", "cloister-init"…). */
int program_path(const char *name, char *ret, size_t size, struct error *err);

/* Opens one for reading. */
int program_open(const char *name, struct error *err);
