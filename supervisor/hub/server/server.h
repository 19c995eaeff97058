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

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/hub/call/call.h"
#include "supervisor/hub/call/caller.h"
#include "supervisor/hub/call/question.h"
#include "supervisor/hub/server/connection.h"
#include "supervisor/hub/server/handshake.h"
#include "supervisor/hub/server/listing.h"
#include "supervisor/hub/tools/tools.h"
#include "supervisor/hub/transport/rate.h"

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

/* The parts of the hub that servers need. */
struct hub_server_host {
        struct event_base *base;
        int cache_dir; /* borrowed; -1: none */
        struct exchange_loop
                *http; /* of servers that are reached by HTTP; the first one makes it */
        const struct hub_host *owner;
        unsigned can; /* capabilities of all clients so far: bits of client_can */
        /* The state of a server has changed, or another part of the catalogue. */
        void (*changed)(void *data);
        void *data;
};

enum server_state {
        SERVER_STOPPED,
        SERVER_STARTING,  /* requested from the monitor */
        SERVER_HANDSHAKE, /* the process runs */
        SERVER_LISTING,   /* tools/list is sent for the first time */
        SERVER_READY,
        SERVER_ENDING, /* was READY; its output or the process has ended, the rest is awaited */
        SERVER_FAILED,
        SERVER_STATE_MAX,
};

struct hub_server {
        struct hub_server_host *host;
        const struct config_server *config;
        uint32_t index;
        enum server_state state;
        struct error error; /* FAILED: why */

        uint32_t instance;
        bool has_instance; /* the monitor runs it */
        bool has_ended;
        int wait_status;
        unsigned failures;            /* starts in a row */
        uint64_t failed_at, retry_at; /* us */
        uint64_t start_by;            /* when it must be READY, however often it is started again */
        struct event deadline;        /* of the state */

        struct connection *connection;
        struct handshake *handshake;
        struct listing *listing;
        struct hub_calls *calls;

        struct hub_tools *tools; /* as known, perhaps from the cache; NULL: not known */
        unsigned
                declared; /* the capabilities of clients that the process received: bits of client_can */
        char *instructions;
        bool has_tools; /* this process may be asked for a list of tools */
        bool has_tasks; /* and may be told to run a tool as a task (2025-11-25) */
        bool cancels_tasks;
        bool has_resources, has_prompts, has_logging;
        int log_level; /* the most detailed level that it has received, plus 1; 0: none */

        bool is_refusal; /* the message that is handled has refused a request, which was not run */
        struct rate
                unnamed; /* messages that do not say for which call they are: each is looked up */
        struct questions questions; /* that it asks while it works on no call */
        struct event roots_due;     /* to tell that roots have changed */
};

/* Why its config makes it unusable; NULL when it is usable. */
const char *hub_server_unusable(const struct hub_server *s);
bool hub_server_is_starting(const struct hub_server *s);

/* With the tools that the cache knows. host and config are borrowed. NULL: no memory. */
struct hub_server *hub_server_new(struct hub_server_host *host, uint32_t index,
                                  const struct config_server *config);
/* Frees its calls too; their callbacks are not called. */
struct hub_server *hub_server_free(struct hub_server *s);
/* Ends it, and its calls with an error that says what it did (why: a predicate); frees it. */
void hub_server_retire(struct hub_server *s, const char *why);
/* Another config, which runs the same program. */
void hub_server_set_config(struct hub_server *s, uint32_t index,
                           const struct config_server *config);
/* Requests a start that the monitor has not answered again, by the new index. */
void hub_server_ask_again(struct hub_server *s);

/* Why it has FAILED; NULL in another state. */
const char *hub_server_error(const struct hub_server *s);

/* Starts it if it is STOPPED, or FAILED some time ago. */
void hub_server_start_unasked(struct hub_server *s);
/* The reports of the monitor. _started() returns whether its start was requested; if so, it takes ownership
 * of the descriptors. _failed() does nothing unless its start was requested. */
bool hub_server_started(struct hub_server *s, uint32_t instance, const int fds[3]);
void hub_server_start_failed(struct hub_server *s, const struct error *error);
/* Returns whether the instance was this server's. */
bool hub_server_ended(struct hub_server *s, uint32_t instance, int wait_status);

/* Sends a notification to the server, one for all changes within SERVER_ROOTS_MS. */
void hub_server_roots_changed(struct hub_server *s);
/* Takes over a new call: sends it, queues it, or fails it at once. */
void hub_server_call(struct hub_server *s, struct hub_call *call);

/* Clients can be asked for more than before: the list for these may be in the cache. */
void hub_server_client_changed(struct hub_server *s);
