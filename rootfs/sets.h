/* The packages that were installed for sessions (docs/packages.md), as far as they are removed here. */
#pragma once

#include <stdint.h>

/* Removes the sets that no session has asked for for a day, and no session of a server that runs has. Adds to *bytes
 * what they took. */
void sets_prune(int store, uint64_t *bytes);
