/* Where an answer goes: to the client at once, or into the array that answers a batch. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "base/json.h"

/* The answers to a batch (2025-03-26 only), sent when the last one is there. */
struct batch {
        struct buffer out;
        size_t waiting;
};

struct reply {
        yyjson_doc *id_doc;  /* owned: a copy of the id that outlives the request */
        struct batch *batch; /* or NULL */
};

/* A copy of a request's id. Returns 0 or -ENOMEM. */
int reply_init(struct reply *reply, yyjson_val *id, struct batch *batch);
void reply_done(struct reply *reply);

static inline yyjson_val *reply_id(const struct reply *reply)
{
        return yyjson_doc_get_root(reply->id_doc);
}

struct batch *batch_new(void);
struct batch *batch_free(struct batch *batch);
/* Adds one message, with its newline, to the array. */
int batch_add(struct batch *batch, const struct buffer *message);
/* Closes the array; it is empty when nothing was to be answered. */
int batch_close(struct batch *batch);
