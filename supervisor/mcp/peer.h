/*
 * One client as the server sees it: what belongs to a connection and not to the server.
 *
 * Standard input and output are one peer, and so is each HTTP session of a legacy client. An HTTP
 * request of a modern client is a peer of its own. Ids of requests are looked up within one peer.
 */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/error.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/asked.h"
#include "supervisor/mcp/log-level.h"
#include "supervisor/mcp/sink.h"
#include "supervisor/mcp/subscriptions.h"

struct mcp_ask;
struct mcp_principal;
struct mcp_server;

TAILQ_HEAD(mcp_ask_list, mcp_ask);
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
        struct mcp_ask_list asks;   /* what it was asked for outside of its calls */
        struct asked asked;         /* what servers may come back to */
        struct subscription legacy; /* its reply has no id; its sink gets the notifications */
};

/* principal: borrowed; NULL: the server's own. sink: gets notifications that belong to no request, or
 * NULL. */
int mcp_peer_new(struct mcp_peer **ret, struct mcp_server *server, struct mcp_principal *principal,
                 struct mcp_sink *sink, struct error *err);
/* Cancels what is under way: no message follows. */
struct mcp_peer *mcp_peer_free(struct mcp_peer *peer);

/* A message of the client, not parsed yet. Answers go to the sink. */
void mcp_peer_line(struct mcp_peer *peer, struct mcp_sink *sink, const char *line, size_t n);
/* A message that jsonrpc_parse() has taken: its result and its error. */
void mcp_peer_parsed(struct mcp_peer *peer, struct mcp_sink *sink,
                     const struct jsonrpc_message *message, int r, const struct error *err);
/* A message above the limit was skipped. */
void mcp_peer_too_long(struct mcp_peer *peer, struct mcp_sink *sink, size_t most);
