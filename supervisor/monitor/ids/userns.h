/* A child in namespaces of its own, and its id map. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * fork() into new namespaces: 0 in the child, its pid in the parent, negative errno. flags:
 * CLONE_NEW*. The child is dumpable by the time this returns, so that its map can be written; it
 * hides again when that is done.
 */
pid_t userns_fork(unsigned long flags);

/*
 * Writes the maps of a child that is dumpable and waits: inside..inside+count-1 to outside_uid… and
 * outside_gid…. setgroups is denied where we have no privilege over it (a kernel's rule,
 * user_namespaces(7)).
 */
int userns_map(pid_t pid, uint32_t inside, uid_t outside_uid, gid_t outside_gid, uint32_t count,
               struct error *err);
