/*
 * Requests to a client: what a server of the user's, or published code, needs of it.
 *
 * A legacy client is sent a request, which its response answers: on the stream of the call that needs it,
 * or on the client's connection. A modern client gets it in the result of its call, and calls again
 * (input.h). Only the client for which the call was made gets the request.
 */
#pragma once

#include "base/json-out.h"
#include "rpc/client-request.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/state.h"

enum { MCP_ASKS_MAX = 64 }; /* of one call, or of a peer outside of its calls, at once */

/* Asks a legacy client outside of its calls. As the functions of struct cell_client_calls. */
int mcp_ask_peer(struct mcp_peer *peer, struct client_ask *ask, struct error *err);

/* cell: that of a call, held while a request waits for its answer; it is NULL when the cell has ended. NULL: there is none. */
void mcp_asks_init(struct mcp_asks *asks, struct mcp_principal *principal,
                   struct cell *const *cell);
/* Asks a legacy client on a stream of one of its calls. */
int mcp_ask_send(struct mcp_asks *asks, struct mcp_peer *peer, struct mcp_sink *sink,
                 struct client_ask *ask, struct error *err);
/* The question of a modern client, which mcp_ask_put() shows to it. */
int mcp_ask_keep(struct mcp_asks *asks, struct mcp_server *server, struct client_ask *ask,
                 struct error *err);
/* The longest time that an asker waits; 0: none says. */
uint32_t mcp_ask_patience(const struct mcp_asks *asks);
/* Puts {"ask-1": {"method", "params"}…}. */
void mcp_ask_put(struct json_out *out, const char *key, const struct mcp_asks *asks);
/* Takes answers by the names that mcp_ask_put() gave. Unknown ones are ignored, except those that come late. Stops when an answer sets *gone. */
void mcp_ask_give(struct mcp_asks *asks, yyjson_val *responses, const bool *gone);
/* A response of a legacy client. Returns whether it answers one of these requests. */
bool mcp_ask_response(struct mcp_asks *asks, const struct jsonrpc_message *message);
/* Ends all requests without an answer; the askers receive why. */
void mcp_ask_end(struct mcp_asks *asks, const char *why);
/* Ends all requests without a message to the client, whose connection has ended. */
void mcp_ask_drop(struct mcp_asks *asks);

/*
 * Requests to a legacy client that matter after their answer: pages that a person must open,
 * whose servers tell when that is done (2025-11-25, "Elicitation", "Completion Notifications"), and servers
 * that asked for its roots, which are notified when they change.
 *
 * The revision 2026-07-28 has neither notification: a client calls again, and a server asks again.
 */

/* A server says that a page is done: notifies the client that must open it, once. id: the server's. principal: the key of
 * the only one that the server works for, or NULL. If clients of several principals have a page of this id, none is notified. */
void notified_page_done(struct mcp_server *server, const char *name, const char *principal,
                        const char *id, size_t n);
/* The client's roots have changed: notifies the servers that asked for them. */
void notified_roots_changed(struct mcp_peer *peer);
void notified_done(struct mcp_peer *peer);
