/* The key "rules": which calls of tools are allowed, asked about or denied (policy/rules/rules.h). */
#pragma once

#include "policy/config/reader.h"
#include "policy/rules/rules.h"

config_code_fn config_read_rules;
config_code_fn config_read_labels; /* of a server (policy/rules/labels.h) */

/* Writes {"file", "line", "number", "own"} of a value and, under this name, the value. Returns 0 or negative errno. */
int config_keep_rule(struct config_reading *r, const char *name, yyjson_val *value, size_t number,
                     char **ret);

/* The servers as rules name them. Returns how many. */
size_t config_rules_servers(const struct config *config,
                            struct rules_server ret[CONFIG_SERVERS_MAX]);

/* Puts the texts of `first` before those of *list, and sets it to NULL. Returns 0 or -ENOMEM. */
int config_put_before(char ***list, char ***first);

/* Compiles the rules of each profile, once all servers are known. A mistake is an error, or a finding. Returns 0 or negative
 * errno. */
int config_compile_rules(struct config *config, struct error *err);
