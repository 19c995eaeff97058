/* The C interface of whatever CPython is installed, without its headers. */
#pragma once

#include <stddef.h>

struct libpython_symbol {
        const char *name;
        void *to; /* a pointer to a function, which is set */
};

/* Opens a libpython (path, or NULL: the newest that there is) and finds the symbols. Whatever is
 * missing ends the program with one line. */
void libpython_open(const char *path, const struct libpython_symbol *symbols, size_t n);
