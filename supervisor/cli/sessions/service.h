/* `cloister reload` and `cloister drain`: ask running servers of this user over their control sockets. */
#pragma once

#include <stddef.h>

#include "supervisor/options/options.h"

int cli_reload(const struct options *options, const char *const *words, size_t n);
int cli_drain(const struct options *options, const char *const *words, size_t n);
