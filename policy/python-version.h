/* Versions of Python as people name them: "3.13", "3.13.2". */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum { PYTHON_MINOR_MIN = 9, PYTHON_MINOR_MAX = 99, PYTHON_PATCH_ANY = -1 };

/* The form of a version, as a JSON Schema pattern and for people. */
#define PYTHON_VERSION_PATTERN "3[.](9|[1-9][0-9])([.](0|[1-9][0-9]{0,2}))?"
#define PYTHON_VERSION_TEXT    "a version such as \"3.13\" or \"3.13.2\", 3.9 or later"

struct python_version {
        int minor; /* the major number is 3 */
        int patch; /* PYTHON_PATCH_ANY: the newest one */
};

/* Whether the text is meant as a version, right or wrong: it begins with a digit and has no slash. */
bool python_version_is_meant(const char *text);

/* Reads "3.N" or "3.N.P", without leading zeros. Returns 0, or -EINVAL with an error that quotes the text. */
int python_version_parse(const char *text, struct python_version *ret, struct error *err);

/* Whether `found` ("3.13.2") is the requested version. */
bool python_version_fits(const struct python_version *wanted, const char *found);

/* Whether `a` is newer than `b`. */
bool python_version_is_newer(const struct python_version *a, const struct python_version *b);
