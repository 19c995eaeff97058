/* Answers: sent to a sink at once, or collected in the array that answers a batch. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "base/json.h"
#include "supervisor/mcp/sink.h"

/* The answers to a batch (2025-03-26 only), sent when all of them are there. */
struct batch {
        struct mcp_sink *sink; /* a reference */
        struct buffer out;
        size_t waiting;
        bool has_requests;
};

/* How long a modern client may cache a result, and whether it may share it. */
struct caching {
        unsigned ttl_ms;
        const char *scope; /* "public" or "private" */
};

struct mcp_task;

struct reply {
        yyjson_doc *id_doc;    /* owned: a copy of the id that outlives the request */
        struct mcp_sink *sink; /* a reference: where it goes */
        struct batch *batch;   /* or NULL */
        bool modern;           /* the result has the members of the modern era */
        bool null_id;          /* without an id it has null: see mcp_answer_error() */
        bool subscription;     /* it ends the stream with its id */
        bool is_task;          /* the result is a task, and not that of the call */
        struct mcp_task *task; /* it keeps the answer in place of the client (tasks.h), or NULL */
        bool input_required;   /* the result asks for something before the answer */
        const struct caching *caching; /* of a modern result that may be cached, else NULL */
};

/* A copy of a request's id. sink: NULL if the reply is not sent. Returns 0 or -ENOMEM; call reply_done()
 * in any case. */
int reply_init(struct reply *reply, yyjson_val *id, struct mcp_sink *sink, struct batch *batch);
void reply_done(struct reply *reply);

static inline yyjson_val *reply_id(const struct reply *reply)
{
        return yyjson_doc_get_root(reply->id_doc);
}

/* Appends a result object with the members of the modern era: resultType, _meta and those for
 * caching. */
int reply_append_modern(const struct reply *reply, const struct buffer *result, struct buffer *to);

struct batch *batch_new(struct mcp_sink *sink);
struct batch *batch_free(struct batch *batch);
/* Adds one message, with its newline, to the array. */
int batch_add(struct batch *batch, const struct buffer *message);
/* Closes the array; it is empty if there was nothing to answer. */
int batch_close(struct batch *batch);
