/* The hub as sessions and the MCP server use it; the secrets that arguments name are put in here. */
#pragma once

#include "supervisor/session/machine/tool-provider.h"

struct hub;
struct broker_secrets;

/* Borrowed; not changed while the provider is used. */
struct tool_parts {
        struct hub *hub;
        struct broker_secrets *secrets;
};

struct tool_provider tool_parts_provider(struct tool_parts *parts);
