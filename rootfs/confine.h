/* Runs a program inside an untrusted root file system, isolated from the host. */
#pragma once

#include "base/error.h"
#include "rootfs/process.h"

/*
 * As process_start(), with the directory root as "/", read-only (pivot_root: nothing else is
 * there), in user, pid, network, ipc and mount namespaces of its own, as an ordinary uid without
 * capabilities, with no_new_privs and bounds on memory, time, files and processes, and an
 * environment of PATH alone. If it cannot be confined, it exits with 126 and a line in its errors.
 */
int confine_start(const char *root, const char *const argv[], struct process *ret,
                  struct error *err);
