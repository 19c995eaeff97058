/*
 * The owner of the image store and of all that is in it: the user that builds images.
 *
 * The store of root is given to a user that the config names, once. That is done while root alone can
 * change the store, and only if no other Cloister uses or builds an image in it. A store that belongs
 * to somebody else is an error (base/owner.h): images that another user can change are not used by
 * root, nor given to a third user.
 */
#pragma once

#include "base/error.h"
#include "supervisor/monitor/image/image-choice.h"
#include "supervisor/monitor/upstream/upstream-user.h"

/* Creates the store where it is missing, and gives it to the user. Not for the rootless mode. */
int image_store_create(const struct image_choice *choice, const struct upstream_user *user,
                       struct error *err);

/* An error when images in the store may be those of a user that Cloister does not run for. Call it as
 * the user. store: O_PATH. */
int image_store_check(int store, const char *path, const struct upstream_user *user,
                      struct error *err);
