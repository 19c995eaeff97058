/* params._meta of a request. */
#include "supervisor/mcp/request.h"

#include <errno.h>
#include <string.h>

#include "rpc/jsonrpc.h"

static int refuse(struct error *err, const char *why)
{
        error_set(err, EINVAL, "%s", why);
        return JSONRPC_INVALID_PARAMS;
}

static int read_modern(yyjson_val *meta, struct mcp_request *ret, struct error *err)
{
        yyjson_val *version = yyjson_obj_get(meta, META_VERSION);
        yyjson_val *level = yyjson_obj_get(meta, META_LOG_LEVEL);

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
        if (level && mcp_log_level_read(level, &ret->log_level) < 0)
                return refuse(
                        err, META_LOG_LEVEL
                        " is no log level: debug, info, notice, warning, error, critical, alert or emergency");
        ret->client = json_string(yyjson_obj_get(meta, META_CLIENT), "name", NULL);
        return 0;
}

int mcp_request_read(yyjson_val *params, struct mcp_request *ret, struct error *err)
{
        yyjson_val *meta = yyjson_obj_get(params, "_meta");
        yyjson_val *token = yyjson_obj_get(meta, "progressToken");

        *ret = (struct mcp_request){
                .era = ERA_LEGACY,
                .params = params,
                .token = yyjson_is_str(token) || json_is_number(token) ? token : NULL,
                .log_level = MCP_LOG_OFF,
        };
        /* One of the modern fields is enough to be modern, so that the error can name the missing
         * one. */
        if (!yyjson_obj_get(meta, META_VERSION) && !yyjson_obj_get(meta, META_CAPABILITIES))
                return 0;
        ret->era = ERA_MODERN;
        return read_modern(meta, ret, err);
}
