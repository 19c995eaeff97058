/*
 * The pipes of one server process. Its stdout carries messages, one a line; its stderr goes to the
 * log; what is sent to it waits in a queue. Internal to the hub.
 *
 * A connection is opened for each process of a server in turn. What a server can make grow is
 * bounded: a message (LINES_MAX), the queue, a line of stderr, how much of its output is read in a
 * period of time.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/jsonrpc.h"
#include "rpc/large-line.h"

enum {
        CONNECTION_QUEUE_MAX = 64 << 20, /* bytes to be written, but for a single message */
        CONNECTION_STDERR_LINE_MAX = 1024,
        CONNECTION_LINE_MS = 30000, /* for a line above CLAIM_MIN, from there to its end */
        CONNECTION_PAUSE_MS = 100,  /* a server that writes too much is read again after this */
};

struct connection;

struct connection_host {
        /* For messages. */
        const char *(*name)(void *data);
        /* A line of stdout. Returns whether it was expected; others count as a flood when they are
         * many. May close the connection, as may all that follow. */
        bool (*line)(void *data, const char *line, size_t n);
        /* The same for a line above CLAIM_MIN bytes, which was parsed in the background. */
        bool (*parsed)(void *data, struct large_line *line);
        /* The beginning of a line that was not complete in time; the rest is skipped. */
        void (*late)(void *data, const char *line, size_t n);
        /* The beginning of a line above LINES_MAX; the rest is skipped. */
        void (*oversized)(void *data, const char *line, size_t n);
        /* stdin or stdout was closed by the process. */
        void (*cut)(void *data);
        void (*no_memory)(void *data);
};

struct connection *connection_new(struct event_base *base, const struct connection_host *host,
                                  void *data);
struct connection *connection_free(struct connection *c);

/* Takes ownership of stdin, stdout and stderr of a new process. */
void connection_open(struct connection *c, const int fds[3]);
void connection_close(struct connection *c);
bool connection_is_open(const struct connection *c);

/* Whether the process has its stdin, or its stdout, still open. */
bool connection_has_input(const struct connection *c);
bool connection_has_output(const struct connection *c);
/* Whether the process has read all that was sent. */
bool connection_is_read(const struct connection *c);
/* Bytes that wait to be written. */
size_t connection_queued(const struct connection *c);

/* Whether each request says what MCP 2026-07-28 wants to know of the client. */
void connection_set_modern(struct connection *c, bool is_modern);

/* Returns the request's id (> 0), or -EMSGSIZE (too much is queued), -EPIPE, -ENOMEM, -EINVAL. It is
 * written from the event loop. */
int64_t connection_request(struct connection *c, const char *method, const char *params, size_t n);
/* The same for a call, whose id is its progress token too. */
struct connection_call {
        unsigned can; /* what the server may ask for: bits of client_can, for a modern one */
        const char *log_level; /* the same for its log messages, or NULL */
        bool takes_tasks;      /* and whether the answer may be a task */
};
int64_t connection_call(struct connection *c, const char *method,
                        const struct connection_call *call, const char *params, size_t n);
int connection_notify(struct connection *c, const char *method, const char *params, size_t n);
/* Answers a request: result is JSON, or NULL: there is no such method. */
void connection_respond(struct connection *c, yyjson_val *id, const char *result);
void connection_refuse(struct connection *c, yyjson_val *id, int code, const char *why);
/* The last id that a request got. */
int64_t connection_last_id(const struct connection *c);

/* Reads what stderr holds now. Returns the line that best explains a failure: the last that has
 * "rror" in it, else the last; "" when there is none. */
const char *connection_last_stderr(struct connection *c);

/* Whether one more warning about this server may be logged: a server must not fill the log. */
bool connection_may_warn(struct connection *c);
