/*
 * How an interpreter is brought into a sandbox (enum template_link): cloister-worker opens its
 * libpython, where the interpreter itself does and where cloister-worker can run at all: it is
 * linked to the libc of this machine. Else the interpreter loads cloister-module, which needs no
 * libc.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/template-link.h"

/* Whether a program of this machine is started by the dynamic loader that starts us. */
bool link_loader_is_ours(const char *program);

/*
 * For a root file system that was made elsewhere. root: its directory; python: the interpreter's
 * path inside; libpython: the path of its libpython inside, NULL or "" for none. Embedded only
 * where the root has our loader and a libc no older than ours. Links are followed inside the root.
 */
int link_of_root(int root, const char *python, const char *libpython, enum template_link *ret,
                 struct error *err);
