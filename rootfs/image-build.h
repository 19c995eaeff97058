/*
 * Builds an image from the host's CPython, with packages if requested. Needs no privilege and a
 * second or two; only packages are downloaded.
 *
 * The image appears in the store by one rename. A second builder of the same name waits and uses
 * it. The next build removes what a killed builder left. Each file has its own inode: an
 * image shares nothing with files that the host executes.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/image.h"
#include "policy/package-set.h"
#include "rootfs/interpreter.h"

struct image_build_options {
        const char *store;             /* absolute; created if missing */
        const char *python;            /* absolute; NULL: IMAGE_PYTHON_DEFAULT */
        const char *node;              /* absolute: this Node is added; NULL: none */
        const char *pyodide;           /* absolute: npm's package is added to it; NULL: none */
        const char *rootfs;            /* for image_import(), which takes one of these two */
        const char *oci;               /* a container image */
        const char *python_from;       /* the image whose Python it gets, or NULL: its own */
        const char *name;              /* NULL: image_default_name(), or a hash of the packages */
        const struct package_set *set; /* NULL or empty: none */
        int link;                      /* INTERPRETER_LINK_ANY or one of enum template_link */
        bool with_private;             /* for image_import(): also what other users may not read */
        bool quiet;                    /* no progress on standard error */
};

/* Returns 1 if the image was built, 0 if it existed already (from the same interpreter), negative
 * errno. *ret (may be NULL) is the content of image.json. */
int image_build(const struct image_build_options *options, struct image_info *ret,
                struct error *err);
