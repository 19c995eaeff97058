/*
 * One upstream MCP server: starts it, learns its tools, carries its calls. Internal to the hub.
 *
 *     STOPPED ──start──► STARTING ──pipes──► HANDSHAKE ──done──► LISTING ──last page──► READY
 *        ▲                   │                   │                  │                     │
 *        │                   └───────────────────┴── error, end, ───┘             end of its output
 *        │                                           deadline: FAILED                     ▼
 *        └────────────────────── exit status known, or awaited long enough ──────────── ENDING
 *
 * A call waits in every state but READY and FAILED, and makes a STOPPED server start. A FAILED
 * server is tried again when its delay is over. No request is sent twice.
 *
 * It is made of a connection (the pipes), a handshake, a listing and its calls, which do not know
 * each other: server.c passes on what concerns another.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config.h"
#include "supervisor/hub/call.h"
#include "supervisor/hub/tools.h"

enum {
        SERVER_START_MS = 30000,         /* to the answer to initialize: npx may have to download */
        SERVER_LIST_MS = 30000,          /* for all pages of tools/list */
        SERVER_END_MS = 2000,            /* from the end of its output to its exit */
        SERVER_DRAIN_MS = 500,           /* from its exit to the end of its output */
        SERVER_RETRY_UNASKED_MS = 10000, /* a failed server is tried again without a call */
        SERVER_ROOTS_MS = 100,           /* from a change of roots to the notification */
        SERVER_UNNAMED_MAX = 200,        /* requests and log messages a second that name no call */
};

struct hub_server;
struct exchange_loop;

/* What servers need of the hub. */
struct hub_server_host {
        struct event_base *base;
        int cache_dir; /* borrowed; -1: none */
        struct exchange_loop *
                *http; /* of the servers that are reached by HTTP; made by the first */
        void *data;
        /* As in struct hub_host. */
        void (*start)(void *data, uint32_t index);
        void (*stop)(void *data, uint32_t instance);
        /* The state of a server has changed, or something that the catalogue shows. */
        void (*changed)(void *data);
        /* What any client can be asked for; asks the owner's client. */
        unsigned (*can)(void *data);
        int (*ask)(void *data, struct client_ask *ask, struct error *err);
        void (*page_done)(void *data, const char *server, const char *id, size_t n);
};

/* With the tools that the cache knows. host and config are borrowed. NULL: no memory. */
struct hub_server *hub_server_new(const struct hub_server_host *host, uint32_t index,
                                  const struct config_server *config);
/* Frees its calls too; their callbacks are not called. */
struct hub_server *hub_server_free(struct hub_server *s);
/* Ends it, and its calls with an error that says what it did (why: a predicate); frees it. */
void hub_server_retire(struct hub_server *s, const char *why);
/* Another config, which runs the same program. */
void hub_server_set_config(struct hub_server *s, uint32_t index,
                           const struct config_server *config);
/* A start that is under way is asked for again, by the new index. */
void hub_server_ask_again(struct hub_server *s);

const struct config_server *hub_server_config(const struct hub_server *s);
/* Why its config makes it unusable; NULL when it is usable. */
const char *hub_server_unusable(const struct hub_server *s);
bool hub_server_is_starting(const struct hub_server *s);
bool hub_server_is_ready(const struct hub_server *s);
/* Why it has FAILED; NULL when it has not. */
const char *hub_server_error(const struct hub_server *s);
/* As known, perhaps from the cache; NULL: not known. */
const struct hub_tools *hub_server_tools(const struct hub_server *s);
const char *hub_server_instructions(const struct hub_server *s);

/* Clients can be asked for more than before: tools from the cache may not be the right ones any more. */
void hub_server_client_changed(struct hub_server *s);

/* Tells the server, once for changes within SERVER_ROOTS_MS. */
void hub_server_roots_changed(struct hub_server *s);

/* Starts it if it is STOPPED, or FAILED some time ago. */
void hub_server_start_unasked(struct hub_server *s);
/* Takes over a new call. */
void hub_server_call(struct hub_server *s, struct hub_call *call);

/* What the monitor reports. _started() returns whether the server was asked for; if so, it takes
 * ownership of the descriptors. _failed(): nothing happens unless it was asked for. */
bool hub_server_started(struct hub_server *s, uint32_t instance, const int fds[3]);
void hub_server_start_failed(struct hub_server *s, const struct error *error);
/* Returns whether the instance was this server's. */
bool hub_server_ended(struct hub_server *s, uint32_t instance, int wait_status);
