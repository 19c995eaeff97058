/* The hub as sessions and the MCP server use it. */
#pragma once

#include "supervisor/hub/hub.h"
#include "supervisor/session/machine/tool-provider.h"

/* hub is borrowed. */
struct tool_provider broker_tool_provider(struct hub *hub);
