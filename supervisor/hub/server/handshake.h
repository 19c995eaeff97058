/*
 * Finds out which era of MCP a server speaks, and opens the protocol in it. Keeps the subscription
 * to changes of the tools that a modern server may grant. Internal to the hub.
 */
#pragma once

#include <event2/event_struct.h>
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

/* Only handshake.c writes the members. */
struct handshake {
        struct connection *connection; /* borrowed */
        const struct handshake_host *host;
        void *data;
        enum { PHASE_NONE, PHASE_PROBING, PHASE_INITIALIZING, PHASE_DONE } phase;
        enum hub_era era;      /* as known from this process or an earlier one */
        enum hub_era speaks;   /* this process; UNKNOWN until its answer */
        bool is_probed;        /* this process was sent server/discover */
        bool skips_probe;      /* the next one is not */
        bool listens;          /* it will say when its tools change */
        int64_t discover_id;   /* 0: not sent, or answered */
        int64_t initialize_id; /* the same */
        const char *asked;     /* the revision that initialize asked for */
        int64_t listen_id;     /* of the open subscription; 0: none */
        struct event probe;    /* the end of the wait for server/discover */
        struct event relisten; /* requests a subscription that has ended again */
};

void handshake_init(struct handshake *h, struct event_base *base, struct connection *connection,
                    const struct handshake_host *host, void *data);
void handshake_done(struct handshake *h);

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

/* The era as known from an earlier run. */
void handshake_set_era(struct handshake *h, enum hub_era era);

/* Return whether the answer was one to the handshake. */
bool handshake_on_answer(struct handshake *h, const struct jsonrpc_message *m);
bool handshake_on_unanswered(struct handshake *h, int64_t id, const char *why);
bool handshake_on_invalid(struct handshake *h, yyjson_val *id, const char *why);

void handshake_on_changed(struct handshake *h, const struct jsonrpc_message *m);
void handshake_on_acknowledged(struct handshake *h, const struct jsonrpc_message *m);
void handshake_on_cancelled(struct handshake *h, const struct jsonrpc_message *m);
