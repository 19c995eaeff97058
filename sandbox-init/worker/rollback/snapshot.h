/*
 * The state of a directory and all below it: names, types, modes, times, targets of links, contents.
 *
 * The copy of a worker holds one of /workspace, in its own memory, and rollback.h restores the directory
 * from it. Only entries of the directory's own file system belong to it: what is mounted below
 * is neither read nor touched. No symbolic link is followed.
 */
#pragma once

#include <stdint.h>

#include "sandbox-init/worker/rollback/snapshot-index.h"

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
