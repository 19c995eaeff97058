/* The tables of other systems: files of the installation, or files of the user. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * Reads the table of a system. name: "codemode-lite", a table of the installation; with a "/", the path of a file.
 * As root, and with CAP_SETUID, the file must belong to root, as a config file. *path and *data are owned by the
 * caller. -ENOENT: there is no such table, and the error lists the installed ones.
 */
int tables_read(const char *name, char **path, char **data, size_t *n, struct error *err);
