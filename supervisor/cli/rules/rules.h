/* `cloister rules`: what the rules of the config say. No server is started. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_rules_list(const struct options *o, const char *const *words, size_t n);
/* words: SERVER.TOOL [ARGUMENTS [ANNOTATIONS]] */
int cli_rules_explain(const struct options *o, const char *const *words, size_t n);
int cli_rules_test(const struct options *o, const char *const *words, size_t n);
