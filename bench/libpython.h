/* The C API of an installed CPython, loaded at run time without its headers. */
#pragma once

#include <stddef.h>

struct libpython_symbol {
        const char *name;
        void *to; /* a pointer to a function, which is set */
};

/* Opens a libpython (path, or NULL: the newest one) and resolves the symbols. Exits with one line
 * if something is missing. */
void libpython_open(const char *path, const struct libpython_symbol *symbols, size_t n);
