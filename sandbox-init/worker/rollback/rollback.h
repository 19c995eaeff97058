/*
 * Restores a directory from its snapshot.
 *
 * To be called while no other process is left: nothing else may change the directory meanwhile.
 *
 * Files are identified by their inodes. A file that was changed is written in place, so that its open
 * descriptors and other names agree; one that was renamed gets its name back; one that was deleted is made
 * again, and descriptors that the process has of it are opened again. New files are deleted first, and
 * changed files are truncated before any is written, so that what fitted then fits again. Contents are
 * compared: a write through a mapping does not change the times of a file.
 */
#pragma once

#include <stdint.h>

#include "sandbox-init/worker/rollback/snapshot.h"

enum { ROLLBACK_NAMED_MAX = 10, ROLLBACK_NAME_SIZE = 256 };

/* Paths below the root, NUL-terminated; longer ones are only counted. */
struct rollback_names {
        uint32_t total, n;
        char names[ROLLBACK_NAMED_MAX][ROLLBACK_NAME_SIZE];
};

struct rollback_report {
        uint32_t changed;             /* files whose content was written again */
        uint32_t returned;            /* names that had been deleted or renamed */
        uint32_t removed;             /* names that were new */
        struct rollback_names named;  /* of all these */
        struct rollback_names failed; /* what is not as it was */
};

void rollback_run(struct snapshot *snapshot, struct rollback_report *ret);
