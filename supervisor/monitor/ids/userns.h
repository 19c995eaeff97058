/* A child in new namespaces, and its id map. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * fork() into new namespaces. flags: CLONE_NEW*. Returns 0 in the child, its pid in the parent, or
 * negative errno. The child is dumpable, so that its map can be written; it must make itself
 * non-dumpable after that.
 */
pid_t userns_fork(unsigned long flags);

/*
 * Writes the id maps of a dumpable child that waits for it: inside..inside+count-1 to outside_uid…
 * and outside_gid…. Without privilege over the ids setgroups() is denied first, as the kernel
 * requires (user_namespaces(7)).
 */
int userns_map(pid_t pid, uint32_t inside, uid_t outside_uid, gid_t outside_gid, uint32_t count,
               struct error *err);
