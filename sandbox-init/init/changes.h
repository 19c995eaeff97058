/*
 * Which files in /workspace have changed: init compares what the kernel says of them (type, inode, size,
 * blocks, time of the last status change) with what it said at the last look, and tells the broker
 * (rpc/file-changes.h).
 *
 * A look opens directories only, follows no link, and sees the tmpfs of /workspace alone: no host
 * directory that is mounted in it. It is bounded in files, names, depth and time.
 */
#pragma once

#include <stdbool.h>

/* Takes the first look. Before init is filtered. */
void changes_open(void);

/* Looks, and writes to INIT_CHANGES_FD. Does nothing if a look takes long, unless is_wanted. */
void changes_report(bool is_wanted);
