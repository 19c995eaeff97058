/*
 * Makes an image from the host's own CPython, with packages where they are asked for: no privilege,
 * a second or two; no download but for packages.
 *
 * Whole or not at all: it appears in the store by one rename; a second builder of the same name
 * waits and finds it ready; what a killed one left is swept by the next. Every file has an inode of
 * its own: nothing in an image is shared with what the host executes.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/image.h"
#include "policy/package-set.h"
#include "rootfs/interpreter.h"

struct image_build_options {
        const char *store;             /* absolute; made when missing */
        const char *python;            /* absolute; NULL: IMAGE_PYTHON_DEFAULT */
        const char *rootfs;            /* for image_import() */
        const char *name;              /* NULL: image_default_name(), or one made of the packages */
        const struct package_set *set; /* NULL or empty: none */
        int link;                      /* INTERPRETER_LINK_ANY or one of enum template_link */
        bool quiet;                    /* no progress on standard error */
};

/* Returns 1 when the image was made, 0 when it is there already (then from the same interpreter),
 * negative errno. *ret (may be NULL) is what it says of itself. */
int image_build(const struct image_build_options *options, struct image_info *ret,
                struct error *err);
