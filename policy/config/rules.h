/* Rules about the tools that may be used. */
#pragma once

#include "policy/config/types.h"

/* Whether the rules allow a tool of a server. server: NULL if the rules are a server's. */
bool config_tool_allowed(const struct config_tool_rules *rules, const char *server,
                         const char *tool);
