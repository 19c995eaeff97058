/*
 * Which files in /workspace have changed: init compares what the kernel says of them (type, inode, size,
 * blocks, time of the last status change) with its value at the last scan, and reports to the broker
 * (rpc/file-changes.h).
 *
 * A scan opens directories only, follows no link, and is limited to the tmpfs of /workspace: no host
 * directory that is mounted in it. It is bounded in files, names, depth and time.
 */
#pragma once

#include <stdbool.h>

/* Runs the first scan. Call it before init is filtered. */
void changes_open(void);

/* Scans, and writes to INIT_CHANGES_FD. Does nothing if a scan takes long, unless is_wanted. */
void changes_report(bool is_wanted);
