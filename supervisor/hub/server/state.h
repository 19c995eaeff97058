/* An upstream server, as the files of this folder see it. Only server.c and messages.c write the members. */
#pragma once

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/hub/call/call.h"
#include "supervisor/hub/call/caller.h"
#include "supervisor/hub/server/connection.h"
#include "supervisor/hub/server/handshake.h"
#include "supervisor/hub/server/listing.h"
#include "supervisor/hub/tools/tools.h"
#include "supervisor/hub/transport/transport.h"

enum {
        SERVER_START_MS = 30000,         /* to the answer to initialize: npx may have to download */
        SERVER_LIST_MS = 30000,          /* for all pages of tools/list */
        SERVER_END_MS = 2000,            /* from the end of its output to its exit */
        SERVER_DRAIN_MS = 500,           /* from its exit to the end of its output */
        SERVER_RETRY_UNASKED_MS = 10000, /* a failed server is tried again without a call */
        SERVER_ROOTS_MS = 100,           /* from a change of roots to the notification */
        SERVER_UNNAMED_MAX = 200,        /* requests and log messages a second that name no call */
};

#define SERVER_RESTART_US                                                                          \
        (600 * UINT64_C(1000000)) /* between two restarts because of a refused message */
#define HUB_RESTART_REASON                                                                         \
        "a call that it had not answered after 60 s kept its messages from other clients"

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
        const char *principal; /* borrowed: the only one that calls it; NULL: all do */
        bool was_ready;
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

        struct connection connection;
        struct handshake handshake;
        struct listing listing;
        struct hub_calls calls;

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

        /* Restarts because of messages that were refused (hub/call/books.h). */
        struct event restart_due;
        unsigned n_restarts;
        uint64_t restarted_at; /* us; 0: never */
};
