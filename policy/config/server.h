/* A server of a config: its identity, its secrets, and whether it is Cloister itself. */
#pragma once

#include "policy/config/types.h"

/* The value of config_server.key. */
uint64_t config_server_key(const struct config_server *server);

/* True when the command of a server would start Cloister as an MCP server, directly or through env,
 * sh -c, npx and the like. */
bool config_server_is_ourselves(const struct config_server *server);

/* Masks the secrets of a server in the log (base/mask.h). */
void config_server_mask(const struct config_server *server);

/* Copies a server, to be expanded; free it with config_server_done(). Returns 0 or -ENOMEM. */
int config_server_copy(const struct config_server *server, struct config_server *ret);
void config_server_done(struct config_server *server);
