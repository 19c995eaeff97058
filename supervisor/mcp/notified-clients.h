/*
 * Requests to a legacy client that matter after their answer: pages that a person was to open,
 * whose servers tell when that is done (2025-11-25, "Elicitation", "Completion Notifications"), and servers
 * that asked for its roots, which are notified when they change.
 *
 * The revision 2026-07-28 has neither notification: a client calls again, and a server asks again.
 */
#pragma once

#include <stddef.h>

#include "rpc/client-request.h"

struct mcp_peer;
struct mcp_server;

/* The client is sent this request. */
void notified_keep(struct mcp_peer *peer, const struct client_ask *ask);
/* A server says that a page is done: notifies the client that was to open it, once. id: the server's. */
void notified_page_done(struct mcp_server *server, const char *name, const char *id, size_t n);
/* The client's roots have changed: notifies the servers that asked for them. */
void notified_roots_changed(struct mcp_peer *peer);
void notified_done(struct mcp_peer *peer);
