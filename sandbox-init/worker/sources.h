/* The guest's Python files, embedded by embed.py at build time. */
#pragma once

#include <stddef.h>

enum { GUEST_MAGIC_SIZE = 4 }; /* importlib.util.MAGIC_NUMBER */

struct guest_source {
        const char *name;  /* of the module: "cell" for cell.py */
        const char *bytes; /* UTF-8, NUL-terminated */
        size_t length;
};

/* Their code, marshalled by a CPython of the build. */
struct guest_code {
        const char *name;
        const char *magic; /* of the bytecode, GUEST_MAGIC_SIZE bytes, which may be zeros */
        const char *bytes;
        size_t length;
};

extern const struct guest_source guest_sources[];
extern const size_t guest_sources_count;
extern const struct guest_code guest_codes[];
extern const size_t guest_codes_count;
