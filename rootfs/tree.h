/* A root file system that was made elsewhere (mmdebstrap, a container's export), as an image's
 * root. */
#pragma once

#include "base/error.h"
#include "rootfs/progress.h"

struct tree_totals {
        uint64_t bytes, files, left_out;
};

/*
 * Copies a directory into an empty one: files get inodes of their own, modes become 0755 and 0644,
 * links stay as they are (they are followed inside the root only); devices, sockets, what cannot be
 * read, and what lies below /proc, /sys, /dev, /tmp, /run and /workspace are left out. Then the
 * mount points and the files that an image has of ours (passwd, hosts, ...) are put there.
 * -ENOSPC and -EDQUOT come without a text.
 */
int tree_copy(const char *from, int to, struct progress *progress, struct tree_totals *ret,
              struct error *err);
