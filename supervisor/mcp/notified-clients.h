/*
 * What a legacy client was asked, as far as it counts after the answer: pages that a person was asked to open,
 * whose servers tell when that is done (2025-11-25, "Elicitation", "Completion Notifications"), and servers
 * that asked for its roots, which are told when they change.
 *
 * The revision 2026-07-28 has neither notification: a client calls again, and a server asks again.
 */
#pragma once

#include <stddef.h>

#include "rpc/client-ask.h"

struct mcp_peer;
struct mcp_server;

/* The client is sent this request. */
void notified_keep(struct mcp_peer *peer, const struct client_ask *ask);
/* A server says that a page is done: the client that was asked to open it is told, once. id: the server's. */
void notified_page_done(struct mcp_server *server, const char *name, const char *id, size_t n);
/* The client's roots have changed: servers that asked for them are told. */
void notified_roots_changed(struct mcp_peer *peer);
void notified_done(struct mcp_peer *peer);
