/*
 * What a directory and all below it are like: names, types, modes, times, targets of links, contents.
 *
 * The copy of a worker holds one of /workspace, in its own memory, and rollback.h makes the directory
 * like that again. Only entries of the directory's own file system belong to it: what is mounted below
 * is neither read nor touched. No symbolic link is followed.
 */
#pragma once

#include <stdint.h>

#include "sandbox-init/worker/arena.h"

enum {
        SNAPSHOT_NAMES_MAX = 20000,
        SNAPSHOT_DEPTH_MAX = 64, /* directories between the root and a name */
        SNAPSHOT_TIME_MS = 4000,
};

/* Zero is empty. */
struct snapshot {
        const char *root; /* its path; borrowed */
        uint64_t device;
        struct arena names, inodes, texts, contents, opens; /* snapshot-internal.h */
        uint32_t n_names, n_inodes, n_opens;
        uint32_t *by_name, *by_number; /* SNAPSHOT_SLOTS indexes each, from 1 */
        uint32_t directory; /* the current one's path, in texts; 0: it is not below the root */
        int reserve; /* an open file without a name, whose inode is free once it is closed; 0: none */
};

/*
 * Takes one of the directory. Returns 0 or
 *     -E2BIG      more than SNAPSHOT_NAMES_MAX names
 *     -EFBIG      more than bytes_max of contents
 *     -ELOOP      directories are nested too deeply
 *     -ETIMEDOUT  it took longer than SNAPSHOT_TIME_MS
 *     -ENOMEM, and what the kernel says
 * and then the snapshot is empty. Files and directories that their owner may not read are made readable
 * for the moment.
 */
int snapshot_take(struct snapshot *ret, const char *root, uint64_t bytes_max);
void snapshot_free(struct snapshot *snapshot);
