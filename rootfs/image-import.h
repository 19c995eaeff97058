/*
 * Makes an image from a root file system that was made elsewhere: mmdebstrap's, a container's
 * export, any directory tree with a CPython 3.9 or later in it. Copied (tree.h), then its
 * interpreter is asked where its parts are, inside and confined (confine.h).
 */
#pragma once

#include "rootfs/image-build.h"

/* options->rootfs is the directory, options->python the interpreter's path inside or NULL;
 * options->name is required. Returns 1, or negative errno. */
int image_import(const struct image_build_options *options, struct image_info *ret,
                 struct error *err);
