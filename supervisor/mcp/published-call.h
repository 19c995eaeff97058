/*
 * Calls of what the config publishes: tools/call, prompts/get, resources/read, completion/complete.
 *
 * Each runs as a cell in a sandbox of its own, beside run_python's in the same list of calls. If its
 * code asks the client, the cell ends with the questions. A modern client is answered with them, and
 * calls again; a legacy client gets them as requests, and the code runs again from its start, with the
 * answers so far.
 */
#pragma once

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

struct cell_outcome;
struct config_published;
struct mcp_call;
struct mcp_server;
struct published_run;

enum {
        PUBLISHED_ROUNDS_MAX = 16,       /* runs of one call */
        PUBLISHED_REQUESTS_MAX = 16,     /* questions at once */
        PUBLISHED_CALL_MS = 3600 * 1000, /* of one call, with the answers; of legacy clients */
        MCP_CLIENT_LACKS = -32021,       /* the client did not declare a capability */
};

/* A tool of the config; takes ownership of the reply, as the next ones do. */
void published_call_tool(struct mcp_server *server, const struct mcp_request *request,
                         const struct config_published *tool, struct reply *reply);
void published_call_prompt(struct mcp_server *server, const struct mcp_request *request,
                           struct reply *reply);
void published_complete(struct mcp_server *server, const struct mcp_request *request,
                        struct reply *reply);
/* Returns whether the URI is published; else the reply is the caller's. */
bool published_call_read(struct mcp_server *server, const struct mcp_request *request,
                         struct reply *reply);

/* The cell has ended. Returns whether that is all: the client is being asked, or was answered. */
bool published_take(struct mcp_call *call, const struct cell_outcome *outcome);
/* Withdraws what the client is being asked. NULL is allowed. Returns NULL. */
struct published_run *published_run_free(struct published_run *run);
