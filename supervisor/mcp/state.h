/*
 * The server and its clients, as the parts of the server see them. Each part writes its own members only.
 */
#pragma once

#include <event2/event.h>
#include <sys/queue.h>

#include "supervisor/mcp/publish/published.h"
#include "supervisor/mcp/publish/request-state.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/resources/resource-store.h"
#include "supervisor/mcp/tasks/task.h"
#include "supervisor/session/cell/session-name.h"
#include "supervisor/session/sessions.h"

struct mcp_ask;
struct mcp_call;
struct note;
struct resource_read;
struct tool_list;

/* Questions of a principal that have ended (call/late.h). Initialised by zeroes. */
struct late_asks {
        TAILQ_HEAD(, late_ask) list; /* the oldest first */
        size_t n;
};

/*
 * Who a client is. Sessions, kept outputs, files and notifications about them belong to a principal,
 * not to a connection: no other principal can name them.
 *
 * Standard input and output have one principal without a name, which the server makes; the HTTP
 * server has one for each token or user. They live as long as the server.
 */
struct mcp_principal {
        char name[SESSION_NAME_MAX + 1]; /* "" or a valid session name */
        /* The principal in the keys of its sessions: its name, or, if another principal has had that name, a name that none
         * has had. */
        char key[SESSION_NAME_MAX + 1];
        struct mcp_server *server;      /* of its clients */
        const char *profile;            /* borrowed: that of its clients; NULL: by their names */
        size_t calls_max, sessions_max; /* pending at once; 0: no limit of its own */
        uint32_t cells_per_minute;      /* that may begin; 0: no limit */
        uint64_t cells_until_us;        /* the time that those which have begun take at this rate */
        size_t n_calls;
        size_t n_kept;    /* results of calls that no request waits for */
        size_t n_clients; /* HTTP sessions */
        uint64_t round;   /* of HTTP, in which its last request was taken that had to wait */
        struct resource_store store;
        struct tasks tasks;
        uint64_t resources_serial; /* grows when the list of resources changes */
        struct published_choice published;
        struct request_states states;
        struct late_asks late;
};

/* Drops its data. */
void mcp_principal_done(struct mcp_principal *principal);

/* The filter of one stream of notifications, or of the connection of a legacy client (subscriptions.h). */
enum {
        SUBSCRIPTIONS_MAX = 64,  /* streams of a principal at once */
        WATCHED_URIS_MAX = 1024, /* of one stream, or of the legacy connection */
};

struct subscription {
        struct subscription *next;
        struct mcp_peer *peer;
        struct reply reply; /* of the listen request; without an id: the legacy connection */
        bool lists[PUBLISHED_LISTS];    /* those whose changes are wanted */
        uint64_t seen[PUBLISHED_LISTS]; /* serials of the last lists that it was notified of */
        uint64_t catalogue_seen; /* version of the catalogue, if it watches a resource of that */
        struct resource_uri *uris;
        size_t n_uris;
        char (*tasks)[NODE_MINTED_MAX + 1]; /* ids */
        size_t n_tasks;
};

/* Requests to a client that were not answered (call/ask.h). */
struct mcp_asks {
        TAILQ_HEAD(, mcp_ask) list;
        size_t n;
        struct cell *const *cell; /* that waits for the answers, or NULL */
        struct late_asks *late;   /* of the principal */
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
        const char *transport;           /* "pipe", "tcp" or "unix": static */
        uint64_t began_us;
        bool fresh_sessions; /* a call that names no session gets a new one, and not "default" */
        /* Of the HTTP request whose messages are being taken, borrowed; or NULL. */
        const struct trace_context *trace;

        /* The legacy connection. */
        char client[128];                   /* clientInfo.name of initialize, or "" */
        struct buffer capabilities;         /* of initialize: a JSON object; empty: none */
        char profile_left[IMAGE_NAME_SIZE]; /* its profile before the last reload of the config */
        enum mcp_version version;
        bool initialized; /* the client has sent initialize */
        enum mcp_log_level log_level;
        unsigned can;               /* what the client can be asked for: bits of client_can */
        struct mcp_asks asks;       /* requests to it outside of its calls */
        struct notes notes;         /* requests that servers refer to later (call/ask.h) */
        struct subscription legacy; /* its reply has no id; its sink gets the notifications */
};

/* Settings of the program that runs the MCP server. */
struct mcp_host {
        const char *profile; /* of the server's own principal; NULL: by the client's name */
        /* JSON for the resource cloister://attestation, borrowed; NULL: there is none. */
        const char *attestation;
        size_t attestation_length;
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
        size_t n_unread;    /* tasks that have ended, and whose result no client has read */
        uint64_t unread_us; /* when the last one ended */
        int64_t last_ask;   /* id of a request to a client */
        unsigned can;       /* what any client so far can be asked for */
        struct published_lists published; /* what the config publishes */
};
