/* `cloister mcp`, `tools` and `doctor`, which other programs carry out. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_mcp(const struct options *o, const char *const *words, size_t n);
int cli_tools(const struct options *o, const char *const *words, size_t n);
int cli_doctor(const struct options *o, const char *const *words, size_t n);
