/* The commands that show images. */
#pragma once

#include <limits.h>

#include "supervisor/cli/command/command.h"

int cli_image_list(const struct options *o, const char *const *words, size_t n);
int cli_image_show(const struct options *o, const char *const *words, size_t n);
int cli_image_path(const struct options *o, const char *const *words, size_t n);

/* Prints the names of the images, one per line. Returns the exit status. */
int cli_image_names(void);

/* Opens the image store of this user; path is its directory. -ENOENT: it does not exist yet. */
int images_open(const struct options *o, char path[PATH_MAX], struct error *err);

/* Before the store is changed: where root runs the command and the store is another user's, becomes
 * that user permanently, so that it contains no file of root's. */
int images_become_owner(int store, struct error *err);
