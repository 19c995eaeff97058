/* `cloister serve`. */
#pragma once

#include "supervisor/cli/options.h"

int cli_serve(const struct options *o, const char *const *words, size_t n);
