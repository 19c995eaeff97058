/* The shared libraries that the programs of a plan need, found by the host's own dynamic loader. */
#pragma once

#include "base/error.h"
#include <limits.h>

#include "rootfs/plan.h"

/* The path of the loader that an open program names. Returns 0 or -ENOEXEC: it is not a dynamically
 * linked 64-bit program. */
int libraries_read_loader(int fd, char ret[PATH_MAX]);

/* The loader that a program names (PT_INTERP), owned by the caller. -ENOEXEC: it is no dynamically
 * linked program of this machine. */
int libraries_loader(const char *program, char **ret, struct error *err);

/* Adds to the plan the loader, all that its linked entries need, and what glibc loads on its own
 * (libgcc_s for pthread_exit). program is any that this loader can list. A library that the host
 * lacks too is left out: what needs it fails inside as it does outside. layer: a directory outside
 * of the plan whose libraries need some as well, but from the host only; or NULL. */
int libraries_add(struct plan *plan, const char *loader, const char *program, const char *layer,
                  struct error *err);
