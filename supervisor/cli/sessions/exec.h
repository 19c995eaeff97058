/* `cloister exec`. */
#pragma once

#include "supervisor/cli/command/options.h"

int cli_exec(const struct options *o, const char *const *words, size_t n);
