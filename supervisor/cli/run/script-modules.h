/*
 * The modules beside the script of `cloister run`, which it may import.
 *
 * Of the folder that the script is in, these files are given to the code, and nothing else: the script,
 * each NAME.py whose NAME is a word of the script or of another given file, and the *.py files of each
 * package NAME. Symbolic links are not followed, except the script itself.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum {
        SCRIPT_MODULES_MAX = 2000,                   /* files */
        SCRIPT_MODULES_BYTES_MAX = 16 * 1024 * 1024, /* of all of them */
        SCRIPT_MODULES_ENTRIES_MAX = 100000,         /* of a folder that are looked at */
        SCRIPT_MODULES_DEPTH_MAX = 16,
};

struct script_module {
        char *path; /* below the folder */
        char *text; /* of n bytes */
        size_t n;
};

struct script_modules {
        struct script_module *items; /* the script is not among them */
        size_t n;
        size_t bytes;
        char *left_out; /* a module or package that was too large, or NULL */
};

/* path is the script's, text what it has. A folder that cannot be read has no modules. Returns 0, or
 * -ENOMEM. */
int script_modules_find(const char *path, const char *text, size_t n, struct script_modules *ret);
void script_modules_done(struct script_modules *modules);
