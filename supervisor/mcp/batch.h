/* The answers to a batch (2025-03-26 only), sent as one array when all of them were given. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

struct mcp_sink;

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
/* Adds an answer, with its newline, to the array. Call batch_step() then. */
void batch_add(struct batch *batch, const struct buffer *message);
/* A request was answered, or gets no answer. batch: may be NULL. */
void batch_step(struct batch *batch);
