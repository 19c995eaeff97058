/* The key "rules": which calls of tools are allowed, asked about or denied (policy/rules/rules.h). */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_read_rules;
config_code_fn config_read_labels; /* of a server (policy/rules/labels.h) */

/* Puts the texts of `first` before those of *list, and sets it to NULL. Returns 0 or -ENOMEM. */
int config_put_before(char ***list, char ***first);

/* Compiles the rules of each profile, once all servers are known. A mistake is an error, or a finding. Returns 0 or negative
 * errno. */
int config_compile_rules(struct config *config, struct error *err);
