/* Shared by the commands of `cloister config`. */
#pragma once

#include "base/json-out.h"
#include "supervisor/cli/command/command.h"

/* Prints the JSON that was written, and a line break. Returns the exit status. */
int config_print(const struct json_out *out);

/* The commands. Each returns the exit status. */
int cli_config_path(const struct options *o, const char *const *words, size_t n);
int cli_config_check(const struct options *o, const char *const *words, size_t n);
int cli_config_show(const struct options *o, const char *const *words, size_t n);
int cli_config_schema(const struct options *o, const char *const *words, size_t n);
