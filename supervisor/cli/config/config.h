/* `cloister config`, except its import. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_config_path(const struct options *o, const char *const *words, size_t n);
int cli_config_check(const struct options *o, const char *const *words, size_t n);
int cli_config_show(const struct options *o, const char *const *words, size_t n);
int cli_config_schema(const struct options *o, const char *const *words, size_t n);
