/* Reads TOML with Python's tomllib. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* The content of a TOML file as JSON text. */
int import_toml(const char *path, char **ret, size_t *length, struct error *err);
