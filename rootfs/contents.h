/* What an image made from a host's CPython contains (docs/images.md has the list for people). */
#pragma once

#include "base/error.h"
#include "rootfs/interpreter.h"
#include "rootfs/plan.h"

/* Packages that are not the interpreter's own, unpacked already. */
struct contents_layer {
        const char *directory;       /* where they are now; NULL: none */
        const char *const *replaced; /* what they replace (packages.h) */
};

int contents_plan(struct plan *plan, const struct interpreter *interpreter,
                  const struct contents_layer *layer, struct error *err);

/* Of a root that was made elsewhere: the mount points and the files that are ours. */
int contents_plan_settings(struct plan *plan, struct error *err);
