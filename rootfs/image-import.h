/* Builds an image from a root file system or a container image. */
#pragma once

#include "base/error.h"
#include "rootfs/image-build.h"

/*
 * options->rootfs: a directory, of mmdebstrap, of a container's export, any tree. options->oci: an OCI layout, an OCI archive, a
 * docker-archive, or docker://REF (oci-import.h). It contains a CPython 3.9 or later, or options->python_from names an image that
 * has one. It is copied or unpacked; then its interpreter runs in the copy, confined, to find its parts. options->python is the
 * interpreter's path inside or NULL; options->name is required. Returns 1, or negative errno.
 */
int image_import(const struct image_build_options *options, struct image_info *ret,
                 struct error *err);
