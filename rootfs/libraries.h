/* The shared libraries that the programs of a plan need, found by the host's own dynamic loader. */
#pragma once

#include "base/error.h"
#include <limits.h>

#include "rootfs/plan.h"

/* The loader named by an open program. Returns 0, or -ENOEXEC if it is not a dynamically linked
 * 64-bit program. */
int libraries_read_loader(int fd, char ret[PATH_MAX]);

/* The loader that a program names (PT_INTERP), owned by the caller. -ENOEXEC: it is not a
 * dynamically linked program of this machine. */
int libraries_loader(const char *program, char **ret, struct error *err);

/* Adds to the plan the loader, all that its linked entries need, and what glibc loads at run time
 * (libgcc_s for pthread_exit). program is any program that this loader can list. A library that the
 * host lacks is left out: what needs it fails on the host too. layer: NULL, or a directory outside
 * of the plan whose files need libraries of the host as well. */
int libraries_add(struct plan *plan, const char *loader, const char *program, const char *layer,
                  struct error *err);
