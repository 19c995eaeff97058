/*
 * The messages in the body of one response: a JSON document, or server-sent events.
 *
 * A message above RESERVATION_MIN bytes needs memory that all peers share (rpc/memory-reservation.h), and is parsed in the
 * background; meanwhile the exchange is paused.
 */
#pragma once

#include <event2/event_struct.h>
#include <stdbool.h>

#include "rpc/http/event-stream.h"
#include "rpc/lines.h"
#include "rpc/memory-reservation.h"
#include "supervisor/hub/http/exchange.h"

enum {
        INCOMING_MESSAGE_MS = 30000, /* for one above RESERVATION_MIN, from there to its end */
        INCOMING_PAUSE_MS = 100,     /* a server that sends a flood is read again after this */
};

struct incoming_host {
        /* Each may free the incoming and its exchange. The text of a message that is not long. event: its
         * name, "" in a JSON document. Returns false for a flood: nothing is read for a moment. */
        bool (*message)(void *data, const char *event, const char *text, size_t n);
        bool (*parsed)(void *data, struct large_line *line);
        /* An event has ended, before its message: what it says of the stream is in incoming.events. Frees
         * nothing. */
        void (*event)(void *data);
        /* The body cannot be read on: why, as a predicate. */
        void (*failed)(void *data, const char *why);
        /* All of it was handled. */
        void (*end)(void *data);
};

struct incoming {
        struct event_base *base;
        struct exchange *exchange;
        const struct incoming_host *host;
        void *data;
        bool has_events;
        struct event_stream events;
        struct buffer text; /* of a JSON document */
        struct memory_reservation reservation;
        struct large_line *large;
        struct event late, pause;
        bool is_over; /* the exchange has ended */
        bool *freed;  /* set when incoming_done() is called inside a callback */
};

void incoming_init(struct incoming *in, struct event_base *base, const struct incoming_host *host,
                   void *data);
void incoming_done(struct incoming *in);

/* The body of an exchange follows. */
void incoming_begin(struct incoming *in, struct exchange *exchange, bool has_events);
/* Returns how many bytes were used: see exchange.h. */
size_t incoming_feed(struct incoming *in, const char *bytes, size_t n);
/* The exchange has ended; end() or failed() follows, perhaps later. */
void incoming_finish(struct incoming *in);
/* Forgets the exchange, which is ended by its owner. */
void incoming_stop(struct incoming *in);
