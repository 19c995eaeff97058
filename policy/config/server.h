/* A server of a config: its identity, its secrets, and whether it is Cloister itself. */
#pragma once

#include "base/error.h"
#include "policy/config/types.h"

/* The value of config_server.key. */
uint64_t config_server_key(const struct config_server *server);

/* True when the command of a server would start Cloister as an MCP server, directly or through env,
 * sh -c, npx and the like. */
bool config_server_is_ourselves(const struct config_server *server);

/* Masks the secrets of a server in the log (base/mask.h). */
void config_server_mask(const struct config_server *server);

/* Where references get their values from. */
struct config_values {
        const char *(*variable)(const char *name); /* NULL: the variable is not set */
        /* *ret is cleared and freed by the caller. Returns 0 or negative errno with an error. */
        int (*credential)(const char *name, char **ret, struct error *err);
};

/* Expands ${VAR}, ${VAR:-default}, ${credential:NAME} and a leading ~ in command, args, env values and cwd of a server,
 * in url, values of headers, and the token's file and command.
 * A variable that is not set and a credential that cannot be read are errors. Called by the monitor before
 * a start, on a copy, because values must not be expanded twice and an error leaves some expanded.
 * -ELOOP: the command is Cloister itself. */
int config_server_expand(struct config_server *server, const struct config_values *values,
                         struct error *err);

/* Expands the names and paths of a server's secret. Called for a login only, because nothing else
 * needs the secret. As config_server_expand(). */
int config_oauth_expand(struct config_oauth *oauth, const struct config_values *values,
                        struct error *err);

/* Expands ${VAR} in a text; what: its name in the error. *ret is the caller's. */
int config_expand(const char *text, const char *what, const struct config_values *values,
                  char **ret, struct error *err);

/* Expands ${VAR} in the index of packages, or with JavaScript in the registry, or returns 0 and NULL if there is none. *ret is the
 * caller's. */
int config_packages_index(const struct config_packages *packages, enum language language,
                          const struct config_values *values, char **ret, struct error *err);
