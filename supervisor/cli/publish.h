/* `cloister publish`. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_publish(const struct options *o, const char *const *words, size_t n);
