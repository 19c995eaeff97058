/* The config files of other clients. */
#pragma once

#include "supervisor/cli/config/import.h"

/* Reads the named sources (clients, or paths of files); n == 0: all clients. A named file that
 * cannot be read is an error. */
int import_read(struct import *import, const char *const *words, size_t n, struct error *err);
