/*
 * One client as the server sees it: what belongs to a connection and not to the server.
 *
 * Standard input and output are one peer, and so is each HTTP session of a legacy client. An HTTP
 * request of a modern client is its own peer. Ids of requests are looked up within one peer.
 */
#pragma once

#include "base/error.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/sink.h"

struct mcp_peer;
struct mcp_principal;
struct mcp_server;

/* principal: borrowed; NULL: the server's own. sink: gets notifications that belong to no request, or
 * NULL. */
int mcp_peer_new(struct mcp_peer **ret, struct mcp_server *server, struct mcp_principal *principal,
                 struct mcp_sink *sink, struct error *err);
/* Cancels its pending requests: no message follows. */
struct mcp_peer *mcp_peer_free(struct mcp_peer *peer);

/* A message of the client, not parsed yet. Answers go to the sink. */
void mcp_peer_line(struct mcp_peer *peer, struct mcp_sink *sink, const char *line, size_t n);
/* A message that jsonrpc_parse() has taken: its result and its error. */
void mcp_peer_parsed(struct mcp_peer *peer, struct mcp_sink *sink,
                     const struct jsonrpc_message *message, int r, const struct error *err);
/* A message above the limit was skipped. */
void mcp_peer_too_long(struct mcp_peer *peer, struct mcp_sink *sink, size_t most);
