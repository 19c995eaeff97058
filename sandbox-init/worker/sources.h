/* The guest's Python files, embedded by embed.py at build time. */
#pragma once

#include <stddef.h>

struct guest_source {
        const char *name;  /* of the module: "cell" for cell.py */
        const char *bytes; /* UTF-8, NUL-terminated */
        size_t length;
};

extern const struct guest_source guest_sources[];
extern const size_t guest_sources_count;

/* The source of this name, or NULL. */
const struct guest_source *guest_source_find(const char *name);
