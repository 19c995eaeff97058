/*
 * Unpacks an image into an empty directory.
 *
 * Theory of operation: open the source and read which layers the image has (manifest.h). For each layer, the lowest first: check
 * its digest, unpack it to an empty directory beside the root (layer.h), and put it over the root (merge.h). At last remove what
 * an image does not have. Each step has the bounds of a budget.
 */
#pragma once

#include "base/error.h"
#include "base/json-out.h"
#include "rootfs/oci/budget.h"
#include "rootfs/oci/digest.h"
#include "rootfs/oci/source.h"

struct unpack_options {
        int work;          /* an empty directory beside the root, for layers (borrowed) */
        int root;          /* where the image comes to lie; empty (borrowed) */
        const char *tag;   /* "" : the only image */
        bool with_private; /* also files that only their owner may read */
        void (*progress)(const char *line); /* may be NULL */
};

/*
 * Writes members of a JSON object: digest, layers, bytes, files, left_out, private (count), named (the first of these), env,
 * workdir. -ENOSPC and -EDQUOT: the disk is full.
 */
int unpack_image(const struct source *source, const struct unpack_options *options,
                 struct budget *budget, struct hash *hash, struct json_out *out, struct error *err);
