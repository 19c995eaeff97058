/* Names of log levels. */
#include "supervisor/mcp/log-level.h"

#include <assert.h>
#include <errno.h>

#include "base/cleanup.h"

static const char *const names[] = {
        [MCP_LOG_DEBUG] = "debug",   [MCP_LOG_INFO] = "info",
        [MCP_LOG_NOTICE] = "notice", [MCP_LOG_WARNING] = "warning",
        [MCP_LOG_ERROR] = "error",   [MCP_LOG_CRITICAL] = "critical",
        [MCP_LOG_ALERT] = "alert",   [MCP_LOG_EMERGENCY] = "emergency",
};
static_assert(ARRAY_SIZE(names) == MCP_LOG_OFF, "a name a level");

const char *mcp_log_level_name(enum mcp_log_level level)
{
        return level < MCP_LOG_OFF ? names[level] : "off";
}

int mcp_log_level_read(yyjson_val *value, enum mcp_log_level *ret)
{
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (yyjson_equals_str(value, names[i])) {
                        *ret = (enum mcp_log_level)i;
                        return 0;
                }
        }
        return -EINVAL;
}
