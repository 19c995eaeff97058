/*
 * The directory of the store in which a profile's sessions find the packages that were installed for
 * them: STORE/.installed/PROFILE/sets (docs/packages.md). It is mounted in every session of the
 * profile, so that what is added later is there at once. It can be entered, not listed: a session
 * finds only sets whose names it was told.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Makes what is missing of it. Runs as the store's owner. store: a directory, O_PATH. Returns an
 * O_PATH descriptor. *lock: while it is open, no set is removed that is asked for from now on. */
int package_place_open(int store, const char *profile, int *lock, struct error *err);

/* Their paths below the store. */
void package_place_path(const char *profile, char *to, size_t size);
void package_place_lock_path(const char *profile, char *to, size_t size);
