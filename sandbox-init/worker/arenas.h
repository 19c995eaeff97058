/* The arenas of CPython: the memory from which it allocates small objects. */
#pragma once

#include "sandbox-init/worker/memory/image.h"

/* Notes each arena that is allocated from now on. Does nothing where the interpreter lacks the functions. Call once, in the template. */
void arenas_watch(void);

/* Ends that. Returns the number of those that exist, and in *ret a list that stays valid. */
long arenas_found(const struct image_range **ret);
