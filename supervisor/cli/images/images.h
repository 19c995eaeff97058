/* The commands for images, and the builders that the monitor starts. */
#pragma once

#include <limits.h>

#include "supervisor/cli/command/command.h"

int cli_image_build(const struct options *o, const char *const *words, size_t n);
int cli_image_remove(const struct options *o, const char *const *words, size_t n);
int cli_image_prune(const struct options *o, const char *const *words, size_t n);
int cli_image_builder(const struct options *o, const char *const *words, size_t n);
int cli_package_installer(const struct options *o, const char *const *words, size_t n);
int cli_image_list(const struct options *o, const char *const *words, size_t n);
int cli_image_show(const struct options *o, const char *const *words, size_t n);
int cli_image_path(const struct options *o, const char *const *words, size_t n);

/* Prints the names of the images, one per line. Returns the exit status. */
int cli_image_names(void);

/* Opens the image store of this user; path is its directory. -ENOENT: it does not exist yet. */
int images_open(const struct options *o, char path[PATH_MAX], struct error *err);
