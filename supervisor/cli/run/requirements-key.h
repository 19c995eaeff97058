/* The content of requirements files as a number, which finds the image that was built from them without an
 * installer. */
#pragma once

#include "base/error.h"
#include "policy/package-set.h"

enum { REQUIREMENTS_KEY_SIZE = 17 };

/* Reads the files of the set and those that they include. key: hexadecimal, or "" without files. */
int requirements_key(const struct package_set *set, char key[REQUIREMENTS_KEY_SIZE],
                     struct error *err);
