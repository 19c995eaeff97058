/*
 * Gives an imported tree the Python of another image. The image's files come below BORROWED_PLACE, at their own paths. Its Python
 * is started by cloister-launcher, with the loader and the libraries of that image: the libc of the two may differ.
 */
#pragma once

#include <limits.h>

#include "base/error.h"
#include "rootfs/copy.h"
#include "rootfs/progress.h"

#define BORROWED_PLACE "/opt/cloister/python"

/* store: the image store. name: an image of it. root: the tree. python: the interpreter's path inside the tree. The
 * totals grow. */
int borrowed_python_add(int store, const char *name, int root, char python[PATH_MAX],
                        struct progress *progress, struct tree_totals *totals, struct error *err);
