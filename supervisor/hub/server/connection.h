/*
 * The messages to one server: requests and their ids, notifications, answers. They are carried
 * by a transport. Internal to the hub.
 *
 * A connection is opened for each process of a server in turn, or for each attempt to reach one by
 * HTTP.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/jsonrpc.h"
#include "supervisor/hub/call/caller.h"
#include "supervisor/hub/transport/pipes.h"
#include "supervisor/hub/transport/transport.h"

/* Only connection.c writes the members. */
struct connection {
        struct event_base *base;
        const struct connection_host *host;
        void *data;
        struct transport *pipes, *http; /* http: made when it is needed */
        struct transport *transport;    /* the open one, or NULL */
        bool is_modern;
        bool has_only_legacy; /* the server cannot be of MCP 2026-07-28, because of how it is reached */
        int64_t last_id;      /* of a request */
        struct rate warn_rate;
};

/* Returns 0 or -ENOMEM; connection_done() must be called in any case. */
int connection_init(struct connection *c, struct event_base *base,
                    const struct connection_host *host, void *data);
void connection_done(struct connection *c);

struct exchange_loop;
struct json_out;

/* Takes ownership of stdin, stdout and stderr of a new process. */
void connection_open(struct connection *c, const int fds[3]);
/* Opens the connection to a server that is reached by HTTP, whose process is cloister-access. loop: made when it is
 * NULL, owned by the caller. is_sse: by HTTP+SSE of MCP 2024-11-05. Returns 0 or -ENOMEM. */
int connection_open_http(struct connection *c, const int fds[3], struct exchange_loop **loop,
                         bool is_sse);
void connection_close(struct connection *c);

/* Whether the process has its stdin, or its stdout, still open. */
bool connection_has_input(const struct connection *c);
bool connection_has_output(const struct connection *c);
/* Whether the process has read all that was sent. */
bool connection_is_read(const struct connection *c);

/* Whether each request says what MCP 2026-07-28 wants to know of the client. */
void connection_set_modern(struct connection *c, bool is_modern);
/* The version that initialize has agreed on. */
void connection_set_version(struct connection *c, const char *version);
bool connection_is_http(const struct connection *c);

/* Returns the request's id (> 0), or -EMSGSIZE (too much is queued), -EPIPE, -ENOMEM, -EINVAL. It is
 * written from the event loop. */
int64_t connection_request(struct connection *c, const char *method, const char *params, size_t n);
/* The request of a call, whose id is its progress token too. */
struct connection_call {
        unsigned can; /* what the server may ask for: bits of client_can, for a modern one */
        const char *log_level;             /* of its log messages, or NULL */
        bool takes_tasks;                  /* the answer may be a task */
        uint64_t principal;                /* struct hub_client */
        const struct trace_context *trace; /* or NULL */
};
int64_t connection_call(struct connection *c, const char *method,
                        const struct connection_call *call, const struct call_params *params);
int connection_notify(struct connection *c, const char *method, const char *params, size_t n);
/* Cancels the request. Returns whether an answer may still arrive. */
bool connection_cancel(struct connection *c, int64_t id, const char *reason);
/* An answer to the request has come. */
void connection_answered(struct connection *c, int64_t id);
/* Answers a request: result is JSON, or NULL and why there is none. */
void connection_respond(struct connection *c, yyjson_val *id, const char *result, const char *why);
void connection_refuse(struct connection *c, yyjson_val *id, int code, const char *why);

/* Reads what stderr holds now. Returns the line that best explains a failure: the last that has
 * "rror" in it, else the last; "" when there is none. */
const char *connection_last_stderr(struct connection *c);

/* Reports to the owner that the server is of no use. why: a predicate. */
void connection_fail(struct connection *c, const char *why);

/* Writes the member that names us to a server. */
void connection_put_client(struct json_out *out, const char *key);

/* Whether one more warning about this server may be logged: a server must not fill the log. */
bool connection_may_warn(struct connection *c);
