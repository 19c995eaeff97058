/* `cloister login` and `cloister logout`, which cloister-oauth carries out. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_login(const struct options *o, const char *const *words, size_t n);
int cli_logout(const struct options *o, const char *const *words, size_t n);
