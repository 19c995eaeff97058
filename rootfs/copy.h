/* Copies what a plan lists to a directory. Each file gets its own inode. */
#pragma once

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

/* Copies the content of an open file to another; size is the expected size. Returns 0 or negative
 * errno.
 */
int copy_content(int from, int to, uint64_t size);
