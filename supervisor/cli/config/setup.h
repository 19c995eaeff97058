/* `cloister setup`. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_setup(const struct options *o, const char *const *words, size_t n);

extern const char cli_help_setup[];
