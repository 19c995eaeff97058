/*
 * The answer to a request: where it goes and which id it has. It is sent to a sink, added to the answer of a batch, or
 * kept by a task.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "base/json.h"
#include "supervisor/mcp/operation.h"
#include "supervisor/mcp/sink.h"

/* The answers to a batch (2025-03-26 only), sent as one array when all of them were given. */
struct batch {
        struct mcp_sink *sink; /* a reference */
        struct buffer out;
        size_t waiting;    /* 1, and the requests that were not answered */
        bool has_requests; /* otherwise there is nothing to answer */
};

/* NULL: out of memory. The batch is sent and freed after batch_end() and an answer to each request. */
struct batch *batch_new(struct mcp_sink *sink);
/* Another request needs an answer. */
void batch_expect(struct batch *batch);
/* A request was answered, or gets no answer. batch: may be NULL. */
void batch_step(struct batch *batch);

/* How long a modern client may cache a result, and whether it may share it. */
struct caching {
        unsigned ttl_ms;
        const char *scope; /* "public" or "private" */
};
/* Private: the lists name the user's servers. Short-lived: upstream servers may be starting. */
extern const struct caching caching_lists, caching_none;

struct mcp_task;
struct reply;
struct service_refusal;

/* Gets the answers instead of the client. */
struct reply_keeper {
        /* Return whether the answer is kept. Otherwise the reply is now the one to the request, and it must be answered. */
        bool (*result)(struct reply *reply, const struct buffer *result);
        bool (*error)(struct reply *reply, int code, const char *message,
                      const struct buffer *data);
        /* The reply ends without an answer. */
        void (*done)(struct reply *reply);
};

struct reply {
        yyjson_doc *id_doc;                /* owned: a copy of the id that outlives the request */
        struct mcp_sink *sink;             /* a reference: where it goes */
        struct batch *batch;               /* or NULL */
        bool modern;                       /* the result has the members of the modern era */
        bool null_id;                      /* if it has no id, its id is null: see reply_error() */
        bool subscription;                 /* it ends the stream with its id */
        bool is_task;                      /* the result is a task, and not that of the call */
        const struct reply_keeper *keeper; /* or NULL */
        struct mcp_task *task;             /* the keeper's */
        bool input_required;               /* the result asks for something before the answer */
        struct operation operation;        /* as the metrics count it */
        const struct caching *caching;     /* of a modern result that may be cached, else NULL */
};

/* A copy of a request's id. sink: NULL if the reply is not sent. Returns 0 or -ENOMEM; call reply_done()
 * in any case. */
int reply_init(struct reply *reply, yyjson_val *id, struct mcp_sink *sink, struct batch *batch);
void reply_done(struct reply *reply);

static inline yyjson_val *reply_id(const struct reply *reply)
{
        return yyjson_doc_get_root(reply->id_doc);
}

/* Each of these answers the request and frees the reply. */
void reply_result(struct reply *reply, const struct buffer *result);
/* r: negative if the result could not be made. */
void reply_made(struct reply *reply, int r, const struct buffer *result);
void reply_empty(struct reply *reply);
void reply_error(struct reply *reply, int code, const char *message);
/* data: JSON, or NULL. */
void reply_error_data(struct reply *reply, int code, const char *message,
                      const struct buffer *data);

/* The call was not begun. Answers as reply_error_data() and returns true where the client gets that as a status of HTTP;
 * otherwise the request has no answer yet. */
bool reply_refuse(struct reply *reply, const struct service_refusal *refusal);

/* A cancelled request gets no answer, and a batch does not wait for it. The reply keeps its id: call reply_done() later. */
void reply_nothing(struct reply *reply);

/* Name and version of the server, as a JSON object. */
const char *mcp_server_info(void);
/* The name of the system that the server takes the place of; NULL: Cloister's own. */
void mcp_server_info_set(const char *name);
