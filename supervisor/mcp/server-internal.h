/* What the files of the server share. */
#pragma once

#include "rpc/jsonrpc.h"
#include "supervisor/mcp/peer.h"
#include "supervisor/mcp/principal.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/published.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/resource-store.h"
#include "supervisor/mcp/server.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tool-list.h"

struct mcp_call;
struct resource_read;

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

/* Answer a request and free the reply. */
void mcp_answer(struct mcp_server *server, struct reply *reply, const struct buffer *result);
/* r: negative if the result could not be made. */
void mcp_answer_made(struct mcp_server *server, struct reply *reply, int r,
                     const struct buffer *result);
void mcp_answer_empty(struct mcp_server *server, struct reply *reply);
void mcp_answer_error(struct mcp_server *server, struct reply *reply, int code,
                      const char *message);
/* data: JSON, or NULL. */
void mcp_answer_error_data(struct mcp_server *server, struct reply *reply, int code,
                           const char *message, const struct buffer *data);
/* A cancelled request gets no answer: a batch does not wait for it. The reply keeps its id. */
void mcp_answer_nothing(struct mcp_server *server, struct reply *reply);
/* A request of ours. Returns 0 or negative errno. */
int mcp_send_request(struct mcp_sink *sink, int64_t id, const char *method,
                     const struct buffer *params);
void mcp_notify(struct mcp_sink *sink, const char *method, const struct buffer *params);
/* One answer of the batch is there; after the last one the batch is sent. batch may be NULL. */
void mcp_batch_step(struct mcp_server *server, struct batch *batch);

/* A client can be asked for this (bits of client_can): servers are told. */
void mcp_note_can(struct mcp_server *server, unsigned can);

/* tools/call; takes ownership of the reply. */
void mcp_call_start(struct mcp_server *server, const struct mcp_request *request,
                    struct reply *reply);
/* notifications/cancelled. Returns whether a call with this id is pending. */
bool mcp_call_cancel(struct mcp_peer *peer, yyjson_val *request_id);
/* Whether a call with this id is pending and not cancelled. */
bool mcp_call_is_pending(const struct mcp_peer *peer, yyjson_val *id);
/* The peer ends: cancels its calls. */
void mcp_call_drop(struct mcp_peer *peer);
