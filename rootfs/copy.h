/* Copies what a plan lists, or an imported root file system, to a directory. Each file gets its own inode. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "rootfs/plan.h"
#include "rootfs/progress.h"

/*
 * root: an empty directory. Modes become 0755 and 0644. Times are kept, because compiled Python
 * files are checked against them; no other metadata is copied. -ENOSPC and -EDQUOT set no error
 * text: the caller computes how much space is needed.
 */
int copy_plan(int root, const struct plan *plan, struct progress *progress, struct error *err);

struct tree_totals {
        uint64_t bytes, files, left_out;
        struct private_files private;
};

/*
 * Copies a directory into an empty one: files get inodes of their own, modes become 0755 and 0644,
 * links stay as they are (they are followed inside the root only); devices, sockets, what cannot be
 * read, files and directories that other users of the machine may not read (unless with_private), and what lies below /proc, /sys, /dev, /tmp, /run and /workspace are left out.
 * -ENOSPC and -EDQUOT set no error text.
 */
int tree_copy(const char *from, int to, bool with_private, struct progress *progress,
              struct tree_totals *ret, struct error *err);

/* Where sessions find what the config of a container image asks for (sandbox-init/python/container.py). */
#define CONTAINER_SETTINGS "/etc/cloister/container.json"

/* Writes the mount points and Cloister's own files (passwd, hosts, ...) to an imported tree. container: the text of
 * CONTAINER_SETTINGS, or NULL. A link of the tree is replaced, not followed. -ENOSPC and -EDQUOT set no error text. */
int tree_put_ours(int root, const char *container, struct progress *progress, struct error *err);
