/* The methods that a client calls. */
#pragma once

#include "rpc/jsonrpc.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

struct mcp_peer;
struct mcp_server;

/* Runs the method of the message, which answers and frees the reply. */
void mcp_method_run(const struct jsonrpc_message *message, const struct mcp_request *request,
                    struct reply *reply);

/* A client supports these requests (bits of client_can): tells the servers. */
void mcp_note_can(struct mcp_server *server, unsigned can);

/* The client has its first answers: starts the servers whose tools are not cached, and sandboxes for its sessions. */
void mcp_client_is_ready(struct mcp_peer *peer, enum mcp_era era);

/* How the metrics count the request. */
void mcp_method_begin(const struct jsonrpc_message *message, const struct mcp_request *request,
                      struct operation *ret);
/* A client leaves: counts its MCP session, if it had one. */
void mcp_peer_count(const struct mcp_peer *peer);
