/* The commands that change images, and the builders that the monitor starts. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_image_build(const struct options *o, const char *const *words, size_t n);
int cli_image_remove(const struct options *o, const char *const *words, size_t n);
int cli_image_prune(const struct options *o, const char *const *words, size_t n);
int cli_image_builder(const struct options *o, const char *const *words, size_t n);
int cli_package_installer(const struct options *o, const char *const *words, size_t n);
