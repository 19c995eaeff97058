/* The packages that a user requests for an image; passed as arguments from the command line to the
 * builder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Packages that are installed for the sessions of a profile: STORE/.installed/PROFILE/sets/SET, which
 * a sandbox has at PACKAGES_TARGET/SET (docs/packages.md). */
#define PACKAGES_INSTALLED ".installed"
#define PACKAGES_SETS      "sets"
/*
 * Beside them, for servers that run: each has a shared open file description lock (fcntl(2), F_OFD_SETLK) on one byte, whose
 * offset is the time of its start in seconds. Its sessions have no packages that were requested before.
 */
#define PACKAGES_USE    "lock-use"
#define PACKAGES_TARGET "/run/packages"

/* Variables of the installer (rootfs/packages.h). */
#define PACKAGES_VARIABLE       "CLOISTER_PACKAGES"
#define PACKAGES_INDEX_VARIABLE "CLOISTER_PACKAGES_INDEX"
#define PACKAGES_NPM_VARIABLE                                                                      \
        "CLOISTER_PACKAGES_NPM" /* the script of npm, in the installer's sandbox */
#define PACKAGES_FILTER_VARIABLE "CLOISTER_PACKAGES_FILTER" /* the number of a descriptor */

enum { PACKAGES_INSTALLERS_MAX = 4 }; /* that run at the same time */

/* Of the control group of one installer, or of one build of an image with packages. */
enum {
        PACKAGES_MEMORY = 1024 * 1024 * 1024, /* all processes, with the kernel's memory */
        PACKAGES_PIDS = 80,
};

enum { PACKAGE_WITH_MAX = 32, PACKAGE_FILES_MAX = 16 };

/* All strings are borrowed. */
struct package_set {
        const char *with[PACKAGE_WITH_MAX]; /* "pandas,numpy>=2": see package_next() */
        size_t n_with;
        const char *files[PACKAGE_FILES_MAX]; /* requirements files, absolute */
        size_t n_files;
        const char *npm[PACKAGE_WITH_MAX]; /* of npm, "lodash@^4,@scope/name": see npm_next() */
        size_t n_npm;
        const char *
                files_key; /* of what they have; NULL: it is not noted which image was made of them */
        const char *installer;  /* "pip", "uv", or NULL: the one that exists */
        const char *find_links; /* absolute directory of wheels, or NULL */
        bool offline, upgrade;
};

static inline bool package_set_empty(const struct package_set *set)
{
        return set->n_with == 0 && set->n_files == 0 && set->n_npm == 0;
}

/* Reads the next requirement of a list. A comma is a separator if a name follows it: "a[x,y]>=1,<2,b"
 * has two requirements. Returns false at the end. */
bool package_next(const char **list, const char **word, size_t *n);

/* Each member must be a name with its specifiers (PEP 508), so that an installer cannot interpret
 * it as an option, a directory or a source. */
int package_check(const char *list, struct error *err);

/* Reads the next package of a list that commas separate. Returns false at the end. */
bool npm_next(const char **list, const char **word, size_t *n);

/* Each member must be the name of a package of npm, with versions if need be: NAME, @SCOPE/NAME, NAME@VERSIONS. npm would
 * read other texts as a file, an address or a repository. */
int npm_check(const char *list, struct error *err);

/* A hash of the requirements, in any order, and of the name of the base image. */
uint64_t package_set_key(const struct package_set *set, const char *base);
