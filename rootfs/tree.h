/* Copies an imported root file system (mmdebstrap's, a container's export) to an image's root. */
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
 * mount points and Cloister's own files (passwd, hosts, ...) are written.
 * -ENOSPC and -EDQUOT set no error text.
 */
int tree_copy(const char *from, int to, struct progress *progress, struct tree_totals *ret,
              struct error *err);
