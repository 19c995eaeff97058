/* params._meta of a request, and names of log levels. */
#include "supervisor/mcp/request.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rpc/client-request.h"
#include "rpc/jsonrpc.h"

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

static int refuse(struct error *err, const char *why)
{
        error_set(err, EINVAL, "%s", why);
        return JSONRPC_INVALID_PARAMS;
}

static int read_modern(yyjson_val *meta, struct mcp_request *ret, struct error *err)
{
        yyjson_val *version = yyjson_obj_get(meta, META_VERSION);
        yyjson_val *level = yyjson_obj_get(meta, META_LOG_LEVEL);
        yyjson_val *client = yyjson_obj_get(meta, META_CLIENT);

        if (!yyjson_is_str(version))
                return refuse(err, "params._meta has no string " META_VERSION);
        if (!yyjson_equals_str(version, MCP_MODERN_VERSION)) {
                error_set(err, EPROTONOSUPPORT,
                          "unsupported protocol version: requests with " META_VERSION
                          " are taken for " MCP_MODERN_VERSION
                          ", earlier revisions begin with initialize");
                return MCP_UNSUPPORTED_VERSION;
        }
        if (!yyjson_is_obj(yyjson_obj_get(meta, META_CAPABILITIES)))
                return refuse(err, "params._meta has no object " META_CAPABILITIES);
        if (client && !mcp_is_implementation(client))
                return refuse(err, META_CLIENT " must be an object with strings name and version");
        if (level && mcp_log_level_read(level, &ret->log_level) < 0)
                return refuse(
                        err, META_LOG_LEVEL
                        " is no log level: debug, info, notice, warning, error, critical, alert or emergency");
        ret->client_name = json_string(client, "name", NULL);
        ret->can = client_can_read(yyjson_obj_get(meta, META_CAPABILITIES));
        return 0;
}

bool mcp_is_implementation(yyjson_val *value)
{
        return yyjson_is_str(yyjson_obj_get(value, "name")) &&
               yyjson_is_str(yyjson_obj_get(value, "version"));
}

bool mcp_request_is_first_page(const struct mcp_request *request)
{
        yyjson_val *cursor = yyjson_obj_get(request->params, "cursor");

        return !cursor || yyjson_is_null(cursor) || yyjson_equals_str(cursor, "");
}

int mcp_request_number_cursor(const struct mcp_request *request, uint64_t *below)
{
        size_t n = 0;
        const char *text = json_string(request->params, "cursor", &n);
        char extra;
        unsigned long long value;

        *below = UINT64_MAX;
        if (mcp_request_is_first_page(request))
                return 0;
        if (!text || n > 20 || strspn(text, "0123456789") != n ||
            sscanf(text, "%llu%c", &value, &extra) != 1 || value == 0)
                return -EINVAL;
        *below = value;
        return 0;
}

void mcp_put_cursor(struct json_out *out, uint64_t last)
{
        char text[24];

        snprintf(text, sizeof(text), "%llu", (unsigned long long)last);
        json_out_text(out, "nextCursor", text);
}

/* One of the fields of a modern request is enough, so that the error can name the missing one. */
static bool is_modern(yyjson_val *meta)
{
        static const char *const fields[] = {META_VERSION, META_CAPABILITIES, META_CLIENT,
                                             META_LOG_LEVEL};

        for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
                if (yyjson_obj_get(meta, fields[i]))
                        return true;
        }
        return false;
}

/* OpenTelemetry's convention for MCP: the headers of W3C Trace Context as members of _meta. */
static void read_trace(yyjson_val *meta, struct trace_context *ret)
{
        size_t n_parent = 0, n_state = 0;
        const char *parent = json_string(meta, "traceparent", &n_parent),
                   *state = json_string(meta, "tracestate", &n_state);

        (void)trace_context_read(ret, parent, n_parent, state, n_state);
}

int mcp_request_read(yyjson_val *params, struct mcp_request *ret, struct error *err)
{
        yyjson_val *meta = yyjson_obj_get(params, "_meta");
        yyjson_val *token = yyjson_obj_get(meta, "progressToken");

        *ret = (struct mcp_request){
                .era = ERA_LEGACY,
                .params = params,
                .token = token,
                .log_level = MCP_LOG_OFF,
        };
        read_trace(meta, &ret->trace);
        if (is_modern(meta))
                ret->era = ERA_MODERN;
        if (params && !yyjson_is_obj(params))
                return refuse(err, "params must be an object");
        if (meta && !yyjson_is_obj(meta))
                return refuse(err, "params._meta must be an object");
        if (token && !yyjson_is_str(token) && !json_is_integer(token))
                return refuse(err, "params._meta.progressToken must be a string or an integer");
        return ret->era == ERA_MODERN ? read_modern(meta, ret, err) : 0;
}
