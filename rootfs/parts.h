/* The files of the host that an image contains, recorded in the store, so that the upgrade of a
 * shared library leads to a new default image (policy/image.h). */
#pragma once

#include "base/error.h"
#include "policy/image.h"
#include "rootfs/plan.h"

/* stat() for image_default_name(). */
int parts_look(const char *path, struct image_stamp *ret);

/* The current name of an interpreter's default image. */
int parts_default_name(int store, const char *python, char ret[IMAGE_NAME_SIZE], struct error *err);

bool parts_known(int store, const char *python);
/* Records the files that the plan of a default image takes from the host. */
int parts_write(int store, const char *python, const struct plan *plan, struct error *err);
