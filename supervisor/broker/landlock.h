/* A second belt around the broker: what its root shows, and no signal or abstract socket beyond
 * itself. */
#pragma once

#include "base/error.h"

/* Best effort: negative where the kernel has none, with the reason. Needs no_new_privs. */
int landlock_apply(struct error *err);
