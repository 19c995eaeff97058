/* Bytes of a connection in one direction. */
#pragma once

#include <assert.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "rpc/http/request.h"
#include "supervisor/egress/session.h"

enum { FLOW_SIZE = 40 * 1024 }; /* a head and as much of a body */
static_assert(FLOW_SIZE > 2 * HTTP_HEAD_MAX + 1024,
              "a head, written anew, and what was read behind it");

struct flow {
        struct egress_session *session;
        int slot; /* tally_enter() */
        int from, to;
        bool is_in;               /* from the server */
        bool is_held;             /* reads, and writes nothing: what was read is not checked yet */
        bool stays_open;          /* at the end, the other side is not told */
        struct http_reader *body; /* ends with it; or NULL */

        unsigned char *data;
        size_t at, n;
        bool has_ended, is_shut; /* all was read; and written */
        bool waits;              /* for egress_connections_wake() */
        struct event *readable, *writable;
};

/* The callback gets EV_READ or EV_WRITE. */
int flow_open(struct flow *flow, struct event_base *base, event_callback_fn callback, void *data);
void flow_close(struct flow *flow);

/*
 * Reads and writes as much as possible now, and waits for the rest by events. Returns 0, or a negative errno that ends the
 * connection: -EDQUOT, max_bytes are used up; -EINVAL, the body is malformed. *moved: bytes came or went.
 */
int flow_pump(struct flow *flow, bool *moved);
