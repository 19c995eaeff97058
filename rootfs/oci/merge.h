/*
 * Puts a layer that was unpacked (tree.h) over the layers below it, by renames: first its whiteouts, which concern only what
 * lower layers have, then its entries. Needs no memory for each entry.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "rootfs/plan.h"

/* Afterwards the layer's directory is empty. Both are borrowed. An error names the entry, escaped: one that lies below what a lower
 * layer has as a link or a file. */
int merge_layer(int layer, int root, struct error *err);

struct merge_totals {
        uint64_t bytes, files;
        struct private_files private; /* files and directories that were removed */
};

/* After the last layer: removes whiteouts, and what is private (tree.h), and gives each directory its final mode. */
int merge_finish(int root, struct merge_totals *ret, struct error *err);
