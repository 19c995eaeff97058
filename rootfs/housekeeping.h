/* Finds and removes stale images. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "policy/image.h"

/* Whether the image has a generated name and its interpreter or a library of it was upgraded or is
 * gone. */
bool housekeeping_is_stale(int store, const struct image_info *info);

/* After a default image was built: removes older ones of its interpreter that are not in use. */
void housekeeping_remove_older(int store, const struct image_info *made);

/* Removes every stale image that is not in use, .set files without an image, and wheels that no
 * image names. Calls report for each stale image; busy: the image is kept because it is in use.
 * *bytes is the size of the removed wheels. Returns the number of images removed, or negative
 * errno. */
int housekeeping_prune(int store, void (*report)(const struct image_info *info, bool busy),
                       uint64_t *bytes, struct error *err);
