/* A program of a root that nobody trusts: run inside it, with nothing of the machine in reach. */
#pragma once

#include "base/error.h"
#include "rootfs/process.h"

/*
 * As process_start(), with the directory root as "/", read-only (pivot_root: nothing else is
 * there), in user, pid, network, ipc and mount namespaces of its own, as an ordinary uid without
 * capabilities, with no_new_privs and bounds on memory, time, files and processes, and an
 * environment of PATH alone. That it cannot be confined is said in its errors, with status 126.
 */
int confine_start(const char *root, const char *const argv[], struct process *ret,
                  struct error *err);
