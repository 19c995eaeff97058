/* Carries a plan out below a directory: every file gets an inode of its own. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "rootfs/plan.h"
#include "rootfs/progress.h"

/*
 * root: an empty directory. Modes become 0755 and 0644, times stay (compiled Python files are valid
 * by them), nothing else of a file crosses. -ENOSPC and -EDQUOT come without a text: the caller
 * knows what is needed.
 */
int copy_plan(int root, const struct plan *plan, struct progress *progress, struct error *err);

/* The content of one open file into another; size is what is expected. Returns 0 or negative errno.
 */
int copy_content(int from, int to, uint64_t size);
