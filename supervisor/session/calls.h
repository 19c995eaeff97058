/*
 * The tool calls and questions of one session that are under way, by the worker's own numbers.
 *
 * Bounded: at CALLS_MAX the session's channel takes no more frames until one is answered.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/frame.h"

struct session;
struct tool_call;

enum {
        CALLS_MAX = 10000,
        CALLS_BUCKETS = 1024,
        CALLS_QUESTIONS_MAX = 64, /* beyond it a QUERY is answered without waiting */
};

struct calls {
        struct tool_call **buckets; /* allocated with the first call */
        size_t n, n_questions;
};

static inline bool calls_full(const struct calls *calls)
{
        return calls->n >= CALLS_MAX;
}

/* Handlers of the frame table. */
int calls_on_call(struct session *session, const struct frame_header *header, const char *payload,
                  struct error *err);
int calls_on_query(struct session *session, const struct frame_header *header, const char *payload,
                   struct error *err);
int calls_on_drop(struct session *session, const struct frame_header *header, const char *payload,
                  struct error *err);

/* The session ends: nobody waits for any answer. */
void calls_drop_all(struct calls *calls);
