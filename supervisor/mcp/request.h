/*
 * The protocol fields of a request, in either era.
 *
 * Modern (2026-07-28): each request names its revision in params._meta and is independent of
 * others. Legacy (2025-11-25 and earlier): initialize sets the revision for the connection. Both
 * may come on one pipe in any order, so each request is classified separately.
 */
#pragma once

#include "base/error.h"
#include "base/json-out.h"
#include "base/json.h"
#include "rpc/trace-context.h"

/* Levels of MCP's logging, the lowest first (names: RFC 5424, 6.2.1). */
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

enum mcp_era { ERA_LEGACY = 1, ERA_MODERN = 2 };

enum {
        MCP_CLIENT_LACKS = -32021, /* the client did not declare a capability */
        MCP_UNSUPPORTED_VERSION = -32022,
};

#define MCP_MODERN_VERSION "2026-07-28"

/* Keys of _meta (specification, basic/index, "Reserved keys"). */
#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_CLIENT       "io.modelcontextprotocol/clientInfo"
#define META_LOG_LEVEL    "io.modelcontextprotocol/logLevel"
#define META_SERVER       "io.modelcontextprotocol/serverInfo"
#define META_RELATED_TASK "io.modelcontextprotocol/related-task"
#define META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

struct mcp_peer;

struct mcp_request {
        struct mcp_peer *peer; /* whose request it is; set by the caller of mcp_request_read() */
        enum mcp_era era;
        yyjson_val *params;           /* or NULL */
        yyjson_val *token;            /* for progress: a string or an integer, or NULL */
        enum mcp_log_level log_level; /* of this request only, or MCP_LOG_OFF */
        unsigned
                can; /* what its client can be asked for: bits of client_can; modern requests only */
        const char *client_name;    /* that a modern client gives itself, or NULL */
        struct trace_context trace; /* of _meta, or empty */
};

/* Whether a value has the required members of the schema's Implementation (clientInfo). */
bool mcp_is_implementation(yyjson_val *value);

/* Whether params.cursor is absent, null or empty, which is the same in Cloister's lists. */
bool mcp_request_is_first_page(const struct mcp_request *request);

/* A cursor that is a number, of a list whose entries have serials that fall: *below is UINT64_MAX for the first page. Returns 0
 * or -EINVAL. */
int mcp_request_number_cursor(const struct mcp_request *request, uint64_t *below);
/* The cursor of the next page: the serial of the last entry of this one. */
void mcp_put_cursor(struct json_out *out, uint64_t last);

/*
 * Returns 0, or the code of the JSON-RPC error that answers it, with the reason in err: params or
 * _meta are malformed, a field of a modern request is missing, or its revision is not supported.
 * ret->era is valid in any case.
 */
int mcp_request_read(yyjson_val *params, struct mcp_request *ret, struct error *err);
