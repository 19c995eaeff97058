/*
 * Builds an image from an imported root file system: of mmdebstrap, of a container's export, any
 * directory tree that contains a CPython 3.9 or later. It is copied (tree.h); then its interpreter
 * runs in the copy, confined (confine.h), to find its parts.
 */
#pragma once

#include "rootfs/image-build.h"

/* options->rootfs is the directory, options->python the interpreter's path inside or NULL;
 * options->name is required. Returns 1, or negative errno. */
int image_import(const struct image_build_options *options, struct image_info *ret,
                 struct error *err);
