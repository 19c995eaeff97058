/* Which images nobody will ask for any more, and their end. */
#pragma once

#include <stdbool.h>

#include "policy/image.h"

/* Whether the name of an image was made by us, and what it was made from is by now another: its
 * interpreter was upgraded or is gone, or a library that it has. */
bool housekeeping_is_stale(int store, const struct image_info *info);

/* After a default image was made: the older ones of its interpreter go, unless they are in use. */
void housekeeping_remove_older(int store, const struct image_info *made);

/* Removes every stale image that nobody uses, notes that lead nowhere, and wheels that no image
 * names. told is called for each image; busy: it stays because it is in use. *bytes: of wheels.
 * Returns the number of images removed, or negative errno. */
int housekeeping_prune(int store, void (*told)(const struct image_info *info, bool busy),
                       uint64_t *bytes, struct error *err);
