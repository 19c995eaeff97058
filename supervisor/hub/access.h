/*
 * Which servers and tools a profile may use. A tool must be allowed by the rules of its server in the
 * config and by the profile. NULL instead of a profile: only the rules of the server count.
 */
#pragma once

#include <stdbool.h>

#include "policy/config/config.h"

bool hub_access_server(const struct config_profile *profile, const struct config_server *server);

/* Also false if the profile may not use the server. */
bool hub_access_tool(const struct config_profile *profile, const struct config_server *server,
                     const char *tool);

/* Whether there are rules at all: if not, all tools of the server may be used. */
bool hub_access_is_limited(const struct config_profile *profile,
                           const struct config_server *server);

/* Names the rule that does not allow a tool, for a message: "profile \"x\"", or "\"tools\" of server
 * \"y\" in the config". Returns `to`. */
const char *hub_access_name_rule(const struct config_profile *profile,
                                 const struct config_server *server, const char *tool, char *to,
                                 size_t size);
