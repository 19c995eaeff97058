/*
 * The server and its clients, as the parts of the server see them. Each part writes its own members only.
 */
#pragma once

#include <event2/event.h>
#include <sys/queue.h>

#include "supervisor/mcp/host.h"
#include "supervisor/mcp/log-level.h"
#include "supervisor/mcp/principal.h"
#include "supervisor/mcp/publish/published.h"
#include "supervisor/mcp/subscription.h"
#include "supervisor/session/sessions.h"

struct mcp_ask;
struct mcp_call;
struct note;
struct resource_read;
struct tool_list;

/* Requests to a client that were not answered (call/ask.h). */
struct mcp_asks {
        TAILQ_HEAD(, mcp_ask) list;
        size_t n;
        struct cell *const *cell; /* that waits for the answers, or NULL */
};

/* Initialised by zeroes. */
struct notes {
        TAILQ_HEAD(, note) list; /* the oldest first */
        size_t n;
};

enum { PEER_CAPABILITIES_MAX = 16 * 1024 };

enum mcp_version {
        MCP_2024_11_05,
        MCP_2025_03_26,
        MCP_2025_06_18,
        MCP_2025_11_25,
        MCP_VERSION_MAX
};

struct mcp_peer {
        LIST_ENTRY(mcp_peer) link;
        struct mcp_server *server;
        struct mcp_principal *principal; /* borrowed */
        bool fresh_sessions; /* a call that names no session gets a new one, and not "default" */

        /* The legacy connection. */
        char client[128];           /* clientInfo.name of initialize, or "" */
        struct buffer capabilities; /* of initialize: a JSON object; empty: none */
        enum mcp_version version;
        bool initialized; /* the client has sent initialize */
        enum mcp_log_level log_level;
        unsigned can;               /* what the client can be asked for: bits of client_can */
        struct mcp_asks asks;       /* requests to it outside of its calls */
        struct notes notes;         /* requests that servers refer to later (notified-clients.h) */
        struct subscription legacy; /* its reply has no id; its sink gets the notifications */
};

struct mcp_server {
        struct event_base *base;
        const struct config *config;
        struct tool_provider tools;
        struct sessions *sessions;
        struct mcp_host host;

        LIST_HEAD(, mcp_peer) peers;

        struct subscription *subscriptions; /* streams of modern clients */
        struct tool_list *lists;            /* one for each profile whose tools were listed */
        struct mcp_principal owner;         /* of standard input and output */
        struct resource_read *reads;        /* pending reads of files */
        struct mcp_call *calls;
        size_t n_calls;
        int64_t last_ask;                 /* id of a request to a client */
        unsigned can;                     /* what any client so far can be asked for */
        struct published_lists published; /* what the config publishes */
};
