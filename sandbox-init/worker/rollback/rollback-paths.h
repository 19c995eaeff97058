/* The state of a rollback, its open directory, and the paths in its report. */
#pragma once

#include "sandbox-init/worker/rollback/rollback-report.h"
#include "sandbox-init/worker/rollback/snapshot-index.h"

struct rollback {
        struct snapshot *s;
        struct rollback_report *report;
        int staging; /* a directory of our own below the root, or -1: there is no room for one yet */
        uint64_t staging_number;
        char staging_name[32];
        uint32_t directory; /* of the snapshot: the one that is visited */
        struct arena moved; /* directories in staging: the indexes of their inodes, or NONE */
        uint32_t n_moved;
        uint32_t opened; /* the directory that open_fd is, or NONE */
        int open_fd;
};

/* Returns a descriptor of the snapshot's directory with this index, or negative errno. It is closed by the next call with
 * another index. */
int rollback_directory(struct rollback *r, uint32_t directory);

void rollback_note_path(const struct rollback *r, struct rollback_names *to, uint32_t directory,
                        const char *text);
/* One of the inode's names. */
void rollback_note_inode(const struct rollback *r, struct rollback_names *to, uint32_t inode);
