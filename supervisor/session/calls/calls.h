/*
 * The pending CALLs and QUERYs of one session, by the ids that the worker gave them.
 *
 * Their number is limited: at CALLS_MAX the session's channel reads no frame until one is answered.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/frame.h"
#include "supervisor/session/channel/frame-body.h"

struct cell;
struct session;
struct tool_call;

enum {
        CALLS_MAX = 10000,
        CALLS_BUCKETS = 1024,
        CALLS_QUERIES_MAX = 64, /* beyond it a QUERY is answered without waiting */
        CALLS_SEARCHES_MAX =
                8, /* beyond it a search fails: all sessions share one thread for them */
};

struct calls {
        struct tool_call **buckets; /* allocated with the first call */
        size_t n, n_queries, n_searches;
};

static inline bool calls_full(const struct calls *calls)
{
        return calls->n >= CALLS_MAX;
}

/* Handlers of frames. */
int calls_on_call(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err);
int calls_on_drop(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err);

/* Handlers of a QUERY: a search, and a wait for the catalogue. */
int calls_on_search(struct session *session, uint64_t number, yyjson_val *root, struct error *err);
int calls_on_catalogue(struct session *session, uint64_t number, yyjson_val *root,
                       struct error *err);

/* The current cell ends: removes from its record the calls that no server was sent. */
void calls_forget_unsent(struct session *session);

/* The time of all of them stands still, or continues: session->stands_still has changed. */
void calls_stand_still(struct session *session, bool stands_still);

/* Drops all of them because the worker ends. */
void calls_drop_all(struct session *session);

/*
 * The standard input of the code of `cloister run`: READ in, RETURN out.
 *
 * Nothing is read before the code reads. A session has at most one READ at a time, of at most
 * FRAME_READ_MAX bytes, and only a cell that has a standard input may send it: everything else is a
 * violation. Bytes that were read for a READ that the code has given up answer the next READ.
 */

/* Where the input of a cell comes from; data is the cell's. */
struct cell_input {
        /* Requests at most n bytes: cell_give_input() answers, also from inside. */
        void (*read)(void *data, size_t n);
        /* Cancels that request. */
        void (*drop)(void *data);
};

/* Answers the READ. n is 0 at the end of the input. */
void cell_give_input(struct cell *cell, const char *bytes, size_t n);

/* Handler of READ frames. */
int input_on_read(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err);
