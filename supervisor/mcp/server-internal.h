/* What server.c and call.c share. */
#pragma once

#include "rpc/jsonrpc.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/server.h"

struct mcp_call;

enum mcp_version {
        MCP_2024_11_05,
        MCP_2025_03_26,
        MCP_2025_06_18,
        MCP_2025_11_25,
        MCP_VERSION_MAX
};

struct mcp_server {
        struct event_base *base;
        const struct config *config;
        struct hub *hub;
        struct sessions *sessions;
        struct mcp_host host;
        enum mcp_version version;
        bool initialized;   /* asked by initialize */
        struct buffer list; /* the result of tools/list as the client knows it, or empty */
        struct mcp_call *calls;
        size_t n_calls;
};

/* Answer a request; the reply is done after it. */
void mcp_answer(struct mcp_server *server, struct reply *reply, const struct buffer *result);
void mcp_answer_error(struct mcp_server *server, struct reply *reply, int code,
                      const char *message);
void mcp_notify(struct mcp_server *server, const char *method, const struct buffer *params);

/* tools/call: takes the reply. */
void mcp_call_start(struct mcp_server *server, yyjson_val *params, struct reply *reply);
/* notifications/cancelled: what is not under way any more is ignored. */
void mcp_call_cancel(struct mcp_server *server, yyjson_val *request_id);
/* Their cells are gone already. */
void mcp_call_free_all(struct mcp_server *server);
