/* What the files of the HTTP server share. */
#pragma once

#include <event2/event.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/unguessable.h"
#include "rpc/http/request.h"
#include "rpc/large-line.h"
#include "supervisor/http/access.h"
#include "supervisor/http/server.h"
#include "supervisor/mcp/peer.h"
#include "supervisor/mcp/server.h"

enum {
        OUTPUT_HIGH = 256 *
                      1024,     /* bytes that wait: above it optional notifications are left out */
        INPUT_HIGH = 64 * 1024, /* bytes behind a request that are read before it is answered */
        MESSAGE_MAX = 600 * 1024 * 1024,
};

/* Where a connection is. */
enum http_connection_state {
        CONNECTION_IDLE,      /* nothing of a request was read */
        CONNECTION_READING,   /* a request */
        CONNECTION_ANSWERING, /* the response has not ended */
        CONNECTION_FLUSHING,  /* the response is being written */
        CONNECTION_CLOSING,   /* what comes is dropped, until the client has closed */
};

struct http_stream;
struct http_session;

struct http_connection {
        TAILQ_ENTRY(http_connection) link; /* of idle ones, else of busy ones */
        struct http_server *server;
        struct bufferevent *io;
        struct event *timer;
        struct event *step; /* to go on from the loop, and not from inside a callback */
        enum http_connection_state state;
        struct http_reader reader;
        struct mcp_principal *user; /* of a unix socket, or NULL */
        struct mcp_principal
                *principal;         /* of the request; NULL: not known yet, or no more of use */
        struct http_stream *stream; /* a reference: it answers the request, or NULL */
        bool chunked, keep_alive, broken, began_events;
        uint64_t deadline_us;
        uint64_t written, written_before;
        size_t held;                /* of the body, in the server's sum */
        struct large_line *parsing; /* the body, or NULL */
};

/* A whole response. type: of the body, or NULL for none. headers: whole lines, or NULL. */
void http_respond(struct http_connection *connection, int status, const char *headers,
                  const char *type, const char *body, size_t n);
/* The same with a text of one line. */
void http_respond_text(struct http_connection *connection, int status, const char *text);
/* The same with a JSON-RPC error; id may be NULL. */
void http_respond_error(struct http_connection *connection, int status, yyjson_val *id, int code,
                        const char *text);

/* A response that is a stream of events. */
void http_begin_events(struct http_connection *connection, const char *headers);
void http_send_events(struct http_connection *connection, const struct buffer *events);
void http_end_events(struct http_connection *connection);
bool http_is_congested(const struct http_connection *connection);
/* Its principal has more than HTTP_CONNECTIONS_OF_ONE that are busy, this one among them. */
bool http_has_too_many(const struct http_connection *connection);

/* Takes a request whose head is complete; returns whether the body is wanted, else it has responded. */
bool http_exchange_head(struct http_connection *connection);
/* Takes a whole request. */
void http_exchange_take(struct http_connection *connection);
/* The body has grown, or is gone. */
void http_hold_body(struct http_connection *connection);

/* Accepted descriptor; takes ownership. user: of a unix socket, or NULL. */
void http_connection_new(struct http_server *server, int fd, struct mcp_principal *user);
void http_connection_free(struct http_connection *connection);

/* ---- streams: where the messages go that answer one POST, or that belong to a session ---- */

struct http_event {
        TAILQ_ENTRY(http_event) link;
        uint64_t number;
        struct buffer bytes; /* as they are sent */
};

struct http_stream {
        struct mcp_sink sink; /* first */
        TAILQ_ENTRY(http_stream) link;
        struct http_session *session;       /* of a legacy client, or NULL */
        struct mcp_peer *peer;              /* a modern request's own, or NULL */
        struct http_connection *connection; /* NULL: none reads it now */
        int error_status;                   /* of an error as the whole answer */
        bool takes_events, takes_json;      /* what the client accepts */
        bool named_events;                  /* 2024-11-05: an event is called "message" */
        bool main;                          /* of the session, not of a POST: it never ends */
        bool answered, began;
        uint64_t number;                 /* of the stream, in its session */
        uint64_t last;                   /* number of the newest event */
        TAILQ_HEAD(, http_event) events; /* kept for a client that comes back */
        size_t n_events, event_bytes;
};

enum {
        STREAM_EVENTS_MAX = 256,
        STREAM_BYTES_MAX = 4 * 1024 * 1024, /* the newest event is kept, whatever its size */
        STREAM_RETRY_MS = 1000,
};

/* Returns a stream with one reference, for the connection if there is one, or NULL. */
struct http_stream *http_stream_new(struct http_connection *connection);
/* No client can come back for its events: drops them. */
void http_stream_forget(struct http_stream *stream);
/* The connection does not read it any more: drops its reference. A modern request is cancelled. */
void http_stream_detach(struct http_stream *stream);
/* A connection reads on behind this event. */
void http_stream_attach(struct http_stream *stream, struct http_connection *connection,
                        uint64_t after);
/* Begins the events, if the client takes any, although there is no message yet. */
void http_stream_begin(struct http_stream *stream);
/* Nothing can answer it any more: its request was cancelled. */
bool http_stream_is_over(const struct http_stream *stream);
void http_stream_end(struct http_stream *stream);

/* ---- sessions of legacy clients ---- */

enum {
        HTTP_SESSIONS_MAX = 1024,
        HTTP_SESSIONS_OF_ONE = 256, /* of a principal */
        HTTP_SESSION_STREAMS = 16,  /* streams of POSTs that are kept; the oldest goes first */
        HTTP_SESSION_IDLE_S = 1800,
        HTTP_SESSION_ID = UNGUESSABLE_LENGTH,
};

struct http_session {
        TAILQ_ENTRY(http_session) link; /* the longest unused first */
        struct http_server *server;
        struct mcp_principal *principal;
        char id[HTTP_SESSION_ID + 1];
        struct mcp_peer *peer;
        struct http_stream *main;          /* a reference */
        TAILQ_HEAD(, http_stream) streams; /* references */
        size_t n_streams;
        uint64_t last_number; /* of a stream */
        uint64_t used_us;
        bool sse;    /* 2024-11-05: it ends with its stream */
        bool ending; /* by http_session_free() */
};

/* NULL: too many, or out of memory. */
struct http_session *http_session_new(struct http_server *server, struct mcp_principal *principal);
/* NULL: the principal has none with this id. */
struct http_session *http_session_find(struct http_server *server,
                                       const struct mcp_principal *principal, const char *id);
void http_session_free(struct http_session *session);
/* Keeps a stream of a POST for a client that comes back. */
void http_session_keep(struct http_session *session, struct http_stream *stream);
/* "STREAM-EVENT". Returns the stream, or NULL. */
struct http_stream *http_session_stream(struct http_session *session, const char *event,
                                        uint64_t *after);
/* Frees those that nobody has used for long. */
void http_sessions_expire(struct http_server *server);

/* ---- the server ---- */

TAILQ_HEAD(http_connections, http_connection);
TAILQ_HEAD(http_sessions, http_session);

struct http_server {
        struct event_base *base;
        struct mcp_server *mcp;
        struct access access;
        struct event *listeners[HTTP_LISTENERS_MAX];
        int fds[HTTP_LISTENERS_MAX];
        size_t n_listeners;
        struct event *helper; /* tells of connections or, where tokens are needed, of those */
        int helper_fd;
        void (*failed)(void *data);
        void *data;
        bool paused;                        /* no connection is accepted */
        struct http_connections idle, busy; /* the longest first */
        size_t n_connections;
        struct http_sessions sessions;
        size_t n_sessions;
        struct event *sweep;
        size_t held; /* bytes: see HTTP_HELD_MAX */
};

static inline bool http_is_full(const struct http_server *server)
{
        return server->held > HTTP_HELD_MAX;
}

/* A place for a connection is free. */
void http_server_resume(struct http_server *server);
