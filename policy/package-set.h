/* Which packages an image is to have, as people ask for them; carried as words from the command
 * line to the builder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { PACKAGE_WITH_MAX = 32, PACKAGE_FILES_MAX = 16 };

/* All strings are borrowed. */
struct package_set {
        const char *with[PACKAGE_WITH_MAX]; /* "pandas,numpy>=2": see package_next() */
        size_t n_with;
        const char *files[PACKAGE_FILES_MAX]; /* requirements files, absolute */
        size_t n_files;
        const char *installer;  /* "pip", "uv", or NULL: whichever is there */
        const char *find_links; /* absolute directory of wheels, or NULL */
        bool offline, upgrade;
};

static inline bool package_set_empty(const struct package_set *set)
{
        return set->n_with == 0 && set->n_files == 0;
}

/* Takes the next requirement off a list. A comma divides where a name follows it: "a[x,y]>=1,<2,b"
 * holds two. Returns false at the end. */
bool package_next(const char **list, const char **word, size_t *n);

/* Each member must be a name with its specifiers (PEP 508): nothing that an installer could take
 * for an option, a folder or a source. */
int package_check(const char *list, struct error *err);

/* A key of the words alone, in any order, on top of the image below them. */
uint64_t package_set_key(const struct package_set *set, const char *base);
