/*
 * What a legacy client was asked, as far as it counts after the answer: pages that a person was asked to open,
 * whose servers tell when that is done (2025-11-25, "Elicitation", "Completion Notifications"), and servers
 * that asked for its roots, which are told when they change.
 *
 * The revision 2026-07-28 has neither notification: a client calls again, and a server asks again.
 */
#pragma once

#include <stddef.h>
#include <sys/queue.h>

#include "rpc/client-ask.h"

struct asked_note;
struct mcp_peer;
struct mcp_server;

enum { ASKED_MAX = 64 }; /* notes of a client; the oldest makes room */

/* Initialised by zeroes. */
struct asked {
        TAILQ_HEAD(asked_notes, asked_note) notes; /* the oldest first */
        size_t n;
};

/* The client is sent this request. */
void asked_note(struct mcp_peer *peer, const struct client_ask *ask);
/* A server says that a page is done: the client that was asked to open it is told, once. id: the server's. */
void asked_page_done(struct mcp_server *server, const char *name, const char *id, size_t n);
/* The client's roots have changed: servers that asked for them are told. */
void asked_roots_changed(struct mcp_peer *peer);
void asked_done(struct asked *asked);
