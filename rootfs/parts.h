/* Which files of the host an image has: noted beside the images, so that an upgrade of a shared
 * library makes a new default image (policy/image.h). */
#pragma once

#include "base/error.h"
#include "policy/image.h"
#include "rootfs/plan.h"

/* stat() for image_default_name(). */
int parts_look(const char *path, struct image_stamp *ret);

/* What the default image of an interpreter is called now. */
int parts_default_name(int store, const char *python, char ret[IMAGE_NAME_SIZE], struct error *err);

bool parts_known(int store, const char *python);
/* Notes what the plan of an interpreter's default image takes from the host. */
int parts_write(int store, const char *python, const struct plan *plan, struct error *err);
