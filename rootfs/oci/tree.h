/*
 * The tree that layers are unpacked to. Names come from a layer and are not trusted: each is resolved by openat2() beneath the
 * tree's root, and no parent may be a symbolic link.
 *
 * While layers are unpacked the modes of a tree are notes:
 *   directories: TREE_PUBLIC, TREE_PRIVATE (others may not read it in the image), TREE_IMPLIED (no entry of a layer names it)
 *   files: 0644 and 0755, or, private, 0600
 *   .wh.NAME, .wh..wh..opq: whiteouts of the layer
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "rootfs/oci/layer-name.h"

enum { TREE_PUBLIC = 0755, TREE_PRIVATE = 0700, TREE_IMPLIED = 0750 };

struct tree {
        int root;          /* borrowed */
        int parent;        /* O_PATH, the directory of the entry that was made last; -1: none */
        char at[PATH_MAX]; /* its path */
};

#define TREE_INIT(fd)                                                                              \
        {                                                                                          \
                .root = (fd), .parent = -1                                                         \
        }
void tree_done(struct tree *tree);

/* Opens an entry. O_PATH | O_NOFOLLOW opens a link itself; otherwise -ELOOP. Returns a descriptor or negative errno. */
int tree_open(const struct tree *tree, const struct layer_name *name, uint64_t flags);

/* Makes an entry of this name; what has the name is removed. mode: TREE_PUBLIC or TREE_PRIVATE. */
int tree_make_directory(struct tree *tree, const struct layer_name *name, mode_t mode);
int tree_make_link(struct tree *tree, const struct layer_name *name, const char *target);
/* An empty file, open for writing. mode: 0644, 0755 or 0600. Returns a descriptor. */
int tree_make_file(struct tree *tree, const struct layer_name *name, mode_t mode);
/* Notes a whiteout of name->base, or with an empty base of all that lower layers have in the directory. An entry of the same
 * layer stays. */
int tree_make_whiteout(struct tree *tree, const struct layer_name *name);

/* Removes an entry with all below it. 0 if there is none. */
int tree_remove(int directory, const char *name);
/* Removes the entries of an open directory. */
int tree_clear(int directory);
