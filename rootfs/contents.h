/* Lists the contents of an image made from a host's CPython (docs/images.md lists it for users). */
#pragma once

#include "base/error.h"
#include "rootfs/interpreter.h"
#include "rootfs/node.h"
#include "rootfs/plan.h"

/* Additional packages, already unpacked. */
struct contents_layer {
        const char *directory;       /* where they are unpacked; NULL: none */
        const char *const *replaced; /* what they replace (packages.h) */
        yyjson_val *libraries;       /* what they need of the host (packages.h) */
        const struct node *node;     /* NULL: none */
};

int contents_plan(struct plan *plan, const struct interpreter *interpreter,
                  const struct contents_layer *layer, struct error *err);

/* A library that packages need, as an untrusted process names it: any other path, also one that a link leads elsewhere, or that
 * not every user may read, is left out. Negative errno: the plan has failed. */
int contents_plan_library(struct plan *plan, const struct interpreter *interpreter,
                          const char *path, struct error *err);

/* For an imported root: the mount points and the files that Cloister writes. */
int contents_plan_settings(struct plan *plan, struct error *err);

/* The loader that a program names (PT_INTERP), owned by the caller. -ENOEXEC: it is not a
 * dynamically linked program of this machine. */
int libraries_loader(const char *program, char **ret, struct error *err);
