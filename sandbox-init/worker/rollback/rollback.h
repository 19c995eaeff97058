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

#include "sandbox-init/worker/rollback/rollback-report.h"
#include "sandbox-init/worker/rollback/snapshot.h"

void rollback_run(struct snapshot *snapshot, struct rollback_report *ret);
