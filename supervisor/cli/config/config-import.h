/* `cloister config import`. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_config_import(const struct options *o, const char *const *words, size_t n);
