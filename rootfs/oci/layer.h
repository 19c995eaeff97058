/* Unpacks one layer, a tar archive (OCI image-spec, layer.md), into an empty tree. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "rootfs/oci/budget.h"
#include "rootfs/oci/stream.h"
#include "rootfs/oci/tree.h"

struct layer {
        struct tree *tree;        /* of this layer: see tree.h */
        const struct tree *below; /* the layers below it, for hard links */
        struct budget *budget;
        mode_t readers; /* permissions that a file must have; others are private */
        uint64_t *
                left_out; /* counts devices, FIFOs, links to what is missing, names that no image has */
};

/* Call in the locale "C": names then keep their bytes. In a locale with UTF-8, libarchive composes the characters of names in pax
 * headers (NFC), so that two files could become one. An error names the entry, escaped. */
int layer_unpack(const struct layer *layer, struct stream *stream, struct error *err);
