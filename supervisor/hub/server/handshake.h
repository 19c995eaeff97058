/*
 * Finds out which era of MCP a server speaks, and opens the protocol in it. Keeps the subscription
 * to changes of the tools that a modern server may grant. Internal to the hub.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "rpc/jsonrpc.h"
#include "supervisor/hub/cache/cache.h"
#include "supervisor/hub/server/connection.h"

enum {
        HANDSHAKE_PROBE_MS =
                3000, /* for the answer to server/discover, before initialize is tried */
        HANDSHAKE_PROBE_HTTP_MS =
                10000,              /* the same over HTTP, where every server answers something */
        HANDSHAKE_LISTEN_MS = 5000, /* from the end of a subscription to the next */
};

struct handshake;

struct handshake_host {
        /* The server can be used. instructions: what it says about itself, or NULL. capabilities: an
         * object, or NULL if it is not known what the server can do. */
        void (*done)(void *data, const char *instructions, size_t n, yyjson_val *capabilities);
        void (*tools_changed)(void *data);
        /* The requests that the server may send: bits of client_can. */
        unsigned (*can)(void *data);
        /* Both close the connection. why: a predicate ("refused initialize"). */
        void (*failed)(void *data, const char *why);
        void (*restart)(void *data, const char *why);
};

/* The connection is borrowed. */
struct handshake *handshake_new(struct event_base *base, struct connection *connection,
                                const struct handshake_host *host, void *data);
struct handshake *handshake_free(struct handshake *h);

/* Talks to a new process. */
void handshake_begin(struct handshake *h);
/* Forgets the process. */
void handshake_stop(struct handshake *h);
/* The request that was not answered yet. */
const char *handshake_awaits(const struct handshake *h);

/* The process ended. Returns whether another process, which is not sent server/discover, may do
 * better. */
bool handshake_ended(struct handshake *h);
/* The time to start is over. */
void handshake_expired(struct handshake *h);

/* The era as known from this process or an earlier run; what this process speaks. */
enum hub_era handshake_era(const struct handshake *h);
void handshake_set_era(struct handshake *h, enum hub_era era);
enum hub_era handshake_speaks(const struct handshake *h);
/* Whether the server will say when its tools change. */
bool handshake_listens(const struct handshake *h);

/* Return whether the answer was one to the handshake. */
bool handshake_on_answer(struct handshake *h, const struct jsonrpc_message *m);
bool handshake_on_unanswered(struct handshake *h, int64_t id, const char *why);
bool handshake_on_invalid(struct handshake *h, yyjson_val *id, const char *why);

void handshake_on_changed(struct handshake *h, const struct jsonrpc_message *m);
void handshake_on_acknowledged(struct handshake *h, const struct jsonrpc_message *m);
void handshake_on_cancelled(struct handshake *h, const struct jsonrpc_message *m);
