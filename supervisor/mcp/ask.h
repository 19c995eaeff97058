/*
 * Requests to a client: what a server of the user's wants of it.
 *
 * A legacy client is sent a request, which its response answers: on the stream of the call that needs it,
 * or on the client's connection. A modern client is told in the result of its call, and calls again
 * (input.h). Only the client for which the call was made is asked.
 */
#pragma once

#include "rpc/client-ask.h"
#include "rpc/jsonrpc.h"

struct mcp_call;
struct mcp_peer;
struct mcp_sink;

enum { MCP_ASKS_MAX = 64 }; /* of one call, or of a peer beside its calls, at once */

/* Asks a legacy client that runs no call. As the functions of struct cell_client_calls. */
int mcp_ask_peer(struct mcp_peer *peer, struct client_ask *ask, struct error *err);
/* A response of the client. Returns whether it answers a request. */
bool mcp_ask_response(struct mcp_peer *peer, const struct jsonrpc_message *message);
/* The peer ends. */
void mcp_ask_drop(struct mcp_peer *peer);

/* ---- of calls ---- */

int mcp_ask_call(struct mcp_call *call, struct client_ask *ask, struct error *err);
/* Nobody answers any more: the askers are told why. */
void mcp_ask_end(struct mcp_call *call, const char *why);
