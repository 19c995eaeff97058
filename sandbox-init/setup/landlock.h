/*
 * Landlock as a second belt under the mounts and the filter: the image read-only, the tmpfs writable, no TCP, no
 * abstract sockets or signals to outside. Best effort: a kernel without it gives 0.
 */
#pragma once

#include "base/error.h"

/* Returns the ABI in force, 0 where the kernel has none. no_new_privs must be set. Allocates nothing. */
int landlock_confine(struct error *err);
