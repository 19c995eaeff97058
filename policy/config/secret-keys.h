/* "secrets" of a profile: values that code uses without having them (docs/secrets.md). */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_read_secrets, config_check_secret_from, config_read_secret_arguments,
        config_check_secret_to, config_check_secret_in, config_check_secret_like;

/* Whether each host of "to" is one that the network of its profile allows, and no profile has too many of these and of inspected ones.
 * -EINVAL. */
int config_check_secret_hosts(struct config *config, struct error *err);
/* Whether the profile has a secret with "to", or a host that is inspected: it has a cloister-inject. */
bool config_has_injected(const struct config_profile *profile);
/* The part of "like" that all placeholders have: bytes from its beginning. */
size_t config_like_prefix(const char *like);

/* The secret of a profile whose value comes from a variable of Cloister's environment, or NULL. Profiles of the whole config are
 * searched: a variable must not reach a sandbox by another way. */
const struct config_secret *config_secret_of_variable(const struct config *config,
                                                      const char *variable, size_t n);

/* Refuses a config in which code of published entries gets such a variable. */
int config_check_variables(const struct config *config, struct error *err);

/* Whether a secret is for arguments of this tool. */
bool config_secret_is_for_tool(const struct config_secret_argument *argument, const char *server,
                               const char *tool);
