/* Images of the store, by the version of their Python. */
#pragma once

#include "policy/image.h"
#include "policy/python-version.h"

/* The newest of a version: an image without a set of packages, with the fewest packages. store: a directory, O_PATH, or -1.
 * Needs no system call but those of the image reader's filter. Returns 1, or 0: there is none. */
int version_image_find(int store, const struct python_version *wanted, char ret[IMAGE_NAME_SIZE]);
