/* `cloister serve`. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_serve(const struct options *o, const char *const *words, size_t n);
