/*
 * The list of a server's tools: asks for it page by page, and again when it may have changed.
 * Internal to the hub.
 */
#pragma once

#include <event2/event_struct.h>
#include <stdbool.h>

#include "rpc/jsonrpc.h"
#include "supervisor/hub/server/connection.h"
#include "supervisor/hub/tools/tools.h"

enum {
        LISTING_AGAIN_MS = 100, /* from list_changed to the request; servers send it in bursts */
        LISTING_AGAIN_MAX_MS = 10000,
        LISTING_PAGES_MAX = 1000,
        LISTING_TTL_MIN_MS = 5000, /* bounds of the ttlMs that a server gives */
        LISTING_TTL_MAX_MS = 24 * 3600 * 1000,
};

struct page_job;

struct listing_host {
        /* For messages. */
        const char *(*name)(void *data);
        /* The list may have changed: call listing_start() if the server is ready. */
        void (*due)(void *data);
        /* The complete list; the callee takes ownership. */
        void (*listed)(void *data, struct hub_tools *tools);
        /* why: a predicate ("closed its input"). */
        void (*failed)(void *data, const char *why);
};

/* Only listing.c writes the members. */
struct listing {
        struct event_base *base;
        struct connection *connection; /* borrowed */
        const struct listing_host *host;
        void *data;
        struct event again_due;

        /* The list that is being received. */
        struct hub_tools *tools; /* NULL: none, or the job has them */
        struct page_job *job;    /* or NULL */
        char *cursor;            /* of the page that was requested last; NULL: the first */
        char *next;              /* that the page names; NULL: it is the last one */
        bool next_is_odd;
        unsigned pages;
        uint64_t since;
        int64_t request_id; /* of the page; 0: none */
        int64_t ttl_ms;     /* the smallest that a page gives; -1: none does */
        bool is_modern;
        bool again; /* list_changed came meanwhile */

        /* The last complete one. */
        uint64_t took;        /* us */
        uint64_t fresh_until; /* the end of its ttlMs; 0: it has none */
};

void listing_init(struct listing *l, struct event_base *base, struct connection *connection,
                  const struct listing_host *host, void *data);

/* Asks for the list. is_modern: the server speaks MCP 2026-07-28, whose lists have a ttlMs. */
void listing_start(struct listing *l, bool is_modern);
/* Forgets the request. Must be called before the memory is freed. */
void listing_stop(struct listing *l);
/* The answer has taken too long. */
void listing_expired(struct listing *l);

/* The server says that the list has changed. */
void listing_changed(struct listing *l);
/* The tools are about to be used: asks for the list again when its ttlMs is over. */
void listing_used(struct listing *l);

/* Whether this is the id of the request that was sent. */
bool listing_awaits(const struct listing *l, yyjson_val *id);
/* There will be no answer. Returns whether it is about tools/list. */
bool listing_on_unanswered(struct listing *l, int64_t id, const char *why);
/* Returns whether it was an answer to tools/list. The document of a large one is taken. */
bool listing_on_answer(struct listing *l, struct jsonrpc_message *answer);
