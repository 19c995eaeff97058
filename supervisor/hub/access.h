/*
 * What of the servers is in reach: by the server's own rules in the config, and by the profile that
 * asks (NULL: none asks, all that is configured is in reach but for what the server's rules take
 * out).
 */
#pragma once

#include <stdbool.h>

#include "policy/config.h"

bool hub_access_server(const struct config_profile *profile, const struct config_server *server);

/* Also false for the tool of a server that is not. */
bool hub_access_tool(const struct config_profile *profile, const struct config_server *server,
                     const char *tool);

/* Whether any tool at all may be out of reach: false lets the list be taken as it is. */
bool hub_access_is_limited(const struct config_profile *profile,
                           const struct config_server *server);

/* The words for a person: "profile \"x\"" or, where the server's own rules say so, "tools of the
 * server in the config". */
const char *hub_access_name_rule(const struct config_profile *profile,
                                 const struct config_server *server, const char *tool, char *to,
                                 size_t size);
