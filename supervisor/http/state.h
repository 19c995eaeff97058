/* The server, its connections, streams and sessions, as the parts of the server see them. */
#pragma once

#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/json.h"
#include "rpc/http/request.h"
#include "rpc/lines.h"
#include "supervisor/http/access.h"
#include "supervisor/http/limits.h"
#include "supervisor/mcp/sink.h"
#include "supervisor/service/node.h"

enum {
        OUTPUT_HIGH = 256 *
                      1024,     /* bytes that wait: above it optional notifications are left out */
        INPUT_HIGH = 64 * 1024, /* bytes behind a request that are read before it is answered */
        MESSAGE_MAX = 600 * 1024 * 1024,
};

/* Where a connection is. */
enum http_connection_state {
        CONNECTION_IDLE,      /* no byte of a request was read */
        CONNECTION_READING,   /* a request */
        CONNECTION_ANSWERING, /* the response has not ended */
        CONNECTION_FLUSHING,  /* the response is being written */
        CONNECTION_CLOSING,   /* what comes is dropped, until the client has closed */
};

struct http_stream;
struct http_session;
struct mcp_peer;
struct service_refusal;

/* The address of a client; the family is AF_UNSPEC if it is not known. */
union http_peer {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

struct http_connection {
        TAILQ_ENTRY(http_connection) link; /* of idle ones, else of busy ones */
        TAILQ_ENTRY(http_connection) turn; /* of those whose request waits for its turn */
        bool waits;
        bool is_unix; /* the socket; otherwise TCP */
        bool admin;   /* came to the address of --admin */
        struct http_server *server;
        struct bufferevent *io;
        struct event timer;
        struct event step; /* to continue from the loop, and not from inside a callback */
        enum http_connection_state state;
        struct http_reader reader;
        struct mcp_principal *user; /* of a unix socket, or NULL */
        union http_peer peer;
        struct mcp_principal
                *principal;         /* of the request; NULL: not known yet, or no more of use */
        struct http_stream *stream; /* a reference: it answers the request, or NULL */
        bool chunked, keep_alive, broken, began_events;
        uint64_t deadline_us;
        uint64_t written, written_before;
        size_t held;                /* of the body, in the server's sum */
        struct large_line *parsing; /* the body, or NULL */
};

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
        char about[SESSION_NAME_MAX + 1]; /* the session of the call that it answers, or "" */
        uint64_t number;                  /* of the stream, in its session */
        uint64_t last;                    /* number of the newest event */
        TAILQ_HEAD(, http_event) events;  /* kept for a client that comes back */
        size_t n_events, event_bytes;
};

enum {
        STREAM_EVENTS_MAX = 256,
        STREAM_BYTES_MAX = 4 * 1024 * 1024, /* the newest event is kept, whatever its size */
        STREAM_RETRY_MS = 1000,
};

/* ---- sessions of legacy clients ---- */

enum {
        HTTP_SESSIONS_MAX = 1024,
        HTTP_SESSIONS_OF_ONE = 256, /* of a principal */
        HTTP_SESSION_STREAMS = 16,  /* streams of POSTs that are kept; the oldest goes first */
        HTTP_SESSION_IDLE_S = 1800,
        HTTP_SESSION_ID = NODE_MINTED_MAX,
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
        bool paused; /* no connection is accepted */
        bool passed; /* the sockets are of systemd */
        void (*tokens_answered)(void *data, const struct error *error); /* or NULL */
        void *tokens_data;
        char *tokens; /* that were checked, or NULL */
        size_t tokens_length;
        struct http_connections idle, busy; /* the longest first */
        size_t n_connections;               /* without those of --admin */
        struct http_sessions sessions;
        size_t n_sessions;
        struct event *sweep;
        size_t held;                     /* bytes: see HTTP_HELD_MAX */
        struct http_connections waiting; /* requests that wait for their turn, in their order */
        struct event turn;
        struct timeval turn_began; /* by the loop, whose clock is coarse */
        size_t turn_cost;          /* bytes: see HTTP_TURN_COST */
        uint64_t round;            /* in which each principal has one request taken */

        struct ask_page_tries *ask_tries; /* ask-page.h; NULL: there was no wrong token */

        /* The address of --admin (admin.h). */
        struct event *admin_listener; /* NULL: there is none */
        int admin_fd;
        bool admin_view; /* without tokens: the live view is served, too */
        size_t n_admin;  /* connections */
        void (*collect)(void *data);
        struct http_connection *views[HTTP_VIEWS_MAX]; /* the oldest first */
        size_t n_views;
        struct event *views_timer; /* NULL: there was none yet */
};

/* Whether too many bytes are held in all or, of several principals, for this one. NULL: it is not known. */
bool http_is_full(const struct http_server *server, const struct mcp_principal *principal);

/* Enters a state, whose deadline begins. */
void http_set_state(struct http_connection *connection, enum http_connection_state state);
void http_set_deadline(struct http_connection *connection, uint64_t ms);
/* The list of its state. */
struct http_connections *http_list_of(struct http_connection *connection);
/* Bytes that wait to be written. */
size_t http_waiting(const struct http_connection *connection);

/* Counts the body again after it has grown or was freed. */
void http_hold_body(struct http_connection *connection);
/* A place for a connection is free. */
void http_server_resume(struct http_server *server);

/* ---- responses; a response and a connection end from the loop (connection.h) ---- */

/* Writes bytes of a response. */
void http_write(struct http_connection *connection, const void *bytes, size_t n);

/* A whole response. type: of the body, or NULL for none. headers: whole lines, or NULL. */
void http_respond(struct http_connection *connection, int status, const char *headers,
                  const char *type, const char *body, size_t n);
/* Responds with a text of one line. */
void http_respond_text(struct http_connection *connection, int status, const char *text);
/* Responds with a text, and counts a refusal for this reason (METRIC_REFUSED). */
void http_refuse(struct http_connection *connection, int status, const char *reason,
                 const char *text);
/* Responds with a JSON-RPC error; id may be NULL. */
void http_respond_error(struct http_connection *connection, int status, yyjson_val *id, int code,
                        const char *text);

/* The call was not begun: status, Retry-After and a JSON-RPC error. */
void http_respond_refusal(struct http_connection *connection, yyjson_val *id,
                          const struct service_refusal *refusal);

/* A response that is a stream of events. */
void http_begin_events(struct http_connection *connection, const char *headers);
void http_send_events(struct http_connection *connection, const struct buffer *events);
void http_end_events(struct http_connection *connection);
