/* `cloister mcp` and `cloister serve`: an MCP server, on standard input and output or over HTTP. */
#pragma once

#include "supervisor/broker/broker.h"

extern const struct broker_mode broker_mode_mcp, broker_mode_serve;
