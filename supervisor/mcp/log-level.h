/* Levels of MCP's logging, the lowest first (names: RFC 5424, 6.2.1). */
#pragma once

#include "base/json.h"

enum mcp_log_level {
        MCP_LOG_DEBUG,
        MCP_LOG_INFO,
        MCP_LOG_NOTICE,
        MCP_LOG_WARNING,
        MCP_LOG_ERROR,
        MCP_LOG_CRITICAL,
        MCP_LOG_ALERT,
        MCP_LOG_EMERGENCY,
        MCP_LOG_OFF, /* the client did not ask; not a level of the protocol */
};

const char *mcp_log_level_name(enum mcp_log_level level);

/* value: a level's name. Returns 0 or -EINVAL. */
int mcp_log_level_read(yyjson_val *value, enum mcp_log_level *ret);
