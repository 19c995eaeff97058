/* The modules of the JavaScript worker, embedded by embed.py at build time. */
#pragma once

#include <stddef.h>

struct javascript_module {
        const char *name; /* of the file, without a folder */
        const char *bytes;
        size_t length;
};

extern const struct javascript_module javascript_modules[];
extern const size_t javascript_modules_count;
