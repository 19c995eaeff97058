/*
 * How messages reach a server and come back: the pipes of a process (pipes.h), or HTTP (http/http.h).
 * Internal to the hub.
 *
 * A transport carries messages and knows the protocol only as far as that needs it. It belongs to a
 * connection (connection.h), is opened for each process of the server, and may be closed, but not
 * freed, inside its callbacks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "rpc/lines.h"
#include "rpc/memory-account.h"

/* A rate limit: a maximum in each window of time. */
struct rate {
        uint64_t window_us;
        uint64_t most;  /* maximum in a window */
        uint64_t since; /* when the window began */
        uint64_t count;
        uint64_t over; /* how many exceeded the maximum in this window */
};

/* Counts n. Returns whether it is within the limit. *missed (may be NULL): how many exceeded it in the
 * window that this call ends, else 0. */
static inline bool rate_allow(struct rate *r, uint64_t n, uint64_t *missed)
{
        uint64_t now = clock_us();

        if (missed)
                *missed = 0;
        if (r->since == 0 || now - r->since >= r->window_us) {
                if (missed)
                        *missed = r->over;
                r->since = now;
                r->count = r->over = 0;
        }
        r->count += n;
        if (r->count <= r->most)
                return true;
        r->over += n;
        return false;
}

/* Events for the owner of a connection, which may close it in each of them. */
struct connection_host {
        /* For messages. */
        const char *(*name)(void *data);
        /* A message, as text. Returns whether it was expected; others count as a flood when they are
         * many. */
        bool (*line)(void *data, const char *line, size_t n);
        /* A message above RESERVATION_MIN bytes, which was parsed in the background. Returns whether it was expected. */
        bool (*parsed)(void *data, struct large_line *line);
        /* The beginning of a line that was not complete in time; the rest is skipped. */
        void (*late)(void *data, const char *line, size_t n);
        /* The beginning of a line above LINES_MAX; the rest is skipped. */
        void (*oversized)(void *data, const char *line, size_t n);
        /* stdin or stdout was closed by the process. */
        void (*cut)(void *data);
        void (*no_memory)(void *data);
        /* The rest is of transports that can fail for one message. */
        /* As line(): an error that refused a request (HTTP status 4xx), which was not run. */
        void (*refused)(void *data, const char *line, size_t n);
        /* There will be no answer to the request. why: a predicate. */
        void (*unanswered)(void *data, int64_t id, const char *why);
        /* The server is of no use, or has lost its state. why: a predicate. */
        void (*failed)(void *data, const char *why);
        /* Calls add() for each argument of a tools/call (params: its parameters) that the server of MCP
         * 2026-07-28 wants as a header. */
        void (*mirror)(void *data, yyjson_val *params,
                       void (*add)(void *to, const char *name, const char *value, size_t n),
                       void *to);
        /* The server has begun a new session, in which it may have other tools. */
        void (*reopened)(void *data);
};

/* A message that was appended to the buffer of transport_prepare(). */
struct outgoing {
        enum { OUTGOING_REQUEST, OUTGOING_NOTIFICATION, OUTGOING_ANSWER } kind;
        int64_t id;         /* of a request */
        const char *method; /* NULL for an answer */
        const char *params; /* JSON, or NULL; not whole if there is a text */
        size_t n;
        bool is_modern;                         /* of MCP 2026-07-28 */
        uint64_t principal;                     /* of a call, a number; 0: it has no name */
        const char *trace_parent, *trace_state; /* of a call; NULL: none */
        /* To be sent behind what was appended, and what ends the message; only if takes_text. */
        struct shared_text *text; /* or NULL */
        const char *after;
};

struct transport;

struct transport_kind {
        bool takes_text;
        void (*free)(struct transport *t); /* it is closed */
        void (*close)(struct transport *t);
        /* Where a message of about n bytes is to be appended. Returns 0, -EMSGSIZE (too much waits to be
         * sent), -EPIPE. */
        int (*prepare)(struct transport *t, size_t n, struct buffer **to);
        /* It was appended. Returns 0, or -ENOMEM: it is lost. */
        int (*commit)(struct transport *t, const struct outgoing *m);
        /* The message that was prepared is not sent. */
        void (*abandon)(struct transport *t);
        bool (*has_input)(const struct transport *t);
        bool (*has_output)(const struct transport *t);
        bool (*is_read)(const struct transport *t);
        size_t (*queued)(const struct transport *t);
        const char *(*last_stderr)(struct transport *t);
        /* The rest may be NULL. */
        /* The request was answered; it was cancelled. Returns whether the server has been informed. */
        void (*answered)(struct transport *t, int64_t id);
        bool (*cancel)(struct transport *t, int64_t id, bool is_modern);
        /* The protocol version that initialize has agreed on. */
        void (*set_version)(struct transport *t, const char *version);
};

struct transport {
        const struct transport_kind *kind;
};

static inline struct transport *transport_free(struct transport *t)
{
        if (t) {
                t->kind->close(t);
                t->kind->free(t);
        }
        return NULL;
}
