/* `cloister rules proposed | accept | reject`: what the answer `always` has proposed. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_rules_proposed(const struct options *o, const char *const *words, size_t n);
int cli_rules_accept(const struct options *o, const char *const *words, size_t n);
int cli_rules_reject(const struct options *o, const char *const *words, size_t n);
