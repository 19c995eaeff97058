/* What the files of the transport share. */
#pragma once

#include <event2/event_struct.h>
#include <sys/queue.h>

#include "supervisor/hub/http/exchange.h"
#include "supervisor/hub/http/http.h"
#include "supervisor/hub/http/incoming.h"
#include "supervisor/hub/rate.h"

TAILQ_HEAD(http_requests, http_request);

enum http_mode {
        HTTP_ASKS_ACCESS, /* the url is not known yet */
        HTTP_STREAMABLE,
        HTTP_SSE_OPENING, /* the endpoint is not known yet */
        HTTP_SSE,
};

enum http_kind {
        HTTP_REQUEST, /* a POST that is answered */
        HTTP_MESSAGE, /* a notification, or an answer to the server */
        HTTP_LISTEN,  /* the GET stream */
        HTTP_REOPEN,  /* initialize, sent again */
};

enum http_state {
        HTTP_QUEUED,
        HTTP_SENT,
        HTTP_WAITS_TOKEN,
        HTTP_WAITS_AGAIN,  /* its stream ended: resumed when the timer is due */
        HTTP_WAITS_STREAM, /* HTTP+SSE: the POST is over, the answer comes in the stream */
};

struct http_request {
        TAILQ_ENTRY(http_request) link;
        struct http *http;
        enum http_kind kind;
        enum http_state state;
        int64_t id;
        bool is_modern, is_initialize, is_initialized;
        char *method;    /* of JSON-RPC; NULL: an answer, or no message */
        char *target;    /* Mcp-Name as it is sent, or NULL */
        char **mirrored; /* "Mcp-Param-NAME: value", NULL-terminated, or NULL */
        size_t n_mirrored;
        struct buffer body;
        struct exchange *exchange;
        struct incoming incoming;
        bool reads;      /* the response is being read as messages */
        bool has_stream; /* it is an event stream */
        struct event again;
        bool is_answered;
        bool resumes;                          /* by GET */
        bool is_counted;                       /* in n_sent */
        bool had_token, had_session;           /* sent again with another one */
        unsigned token_number, session_number; /* that it was sent with */
        unsigned tries;                        /* without an event */
        struct buffer refusal;                 /* the body of a response that is no success */
};

struct http {
        struct transport transport; /* first */
        struct event_base *base;
        struct exchange_loop **loop;
        const struct connection_host *host;
        void *data;
        struct transport *access; /* the pipes of cloister-access */
        bool is_open;
        bool is_sse; /* the config says so */
        enum http_mode mode;
        bool has_answered; /* there was a response, whatever it said */
        struct event due;  /* sends what waits */
        struct rate junk, warnings;

        char *url, *endpoint, *token, *token_before;
        yyjson_doc *entry; /* the answer of cloister-access, with the headers */
        bool asks_token;
        unsigned token_number, session_number;

        char *session, *version;
        struct buffer initialize; /* as it was sent */
        bool is_reopening;
        struct rate reopens;
        /* notifications/initialized, then the stream: others wait for its response */
        struct http_request *barrier;
        char refused[128]; /* how initialize was refused before HTTP+SSE was tried */

        struct http_requests requests; /* in order */
        struct http_request *listen;   /* or NULL */
        unsigned n_sent, n_messages, n_messages_sent;
        size_t bytes, message_bytes;
        struct buffer prepared;
};

/* http.c */
void http_send_soon(struct http *h);
struct http_request *http_find(struct http *h, int64_t id);
/* Both may close the transport. why: a predicate. */
void http_fail(struct http *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool http_may_warn(struct http *h);

/* http-request.c */
struct http_request *http_request_new(struct http *h, enum http_kind kind);
struct http_request *http_request_free(struct http_request *r);
void http_request_send(struct http_request *r);
/* Sends it again when its turn comes. */
void http_request_requeue(struct http_request *r);
/* Others need not wait for its response any more. */
void http_request_release(struct http_request *r);
/* Ends it without an answer. May close the transport. */
void http_request_fail(struct http_request *r, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* The time to the next attempt, within its bounds. */
unsigned http_retry_ms(int64_t wanted);
/* It has been answered, or is not needed: ends soon. */
void http_request_settle(struct http_request *r);

/* http-headers.c: the headers of a request; free with http_headers_free(). NULL: no memory. */
char **http_headers_new(const struct http_request *r);
void http_headers_free(char **headers);
/* The value of Mcp-Name or of a mirrored parameter, encoded where it has to be; the caller frees. */
char *http_header_encode(const char *text, size_t n);

/* http-session.c */
void http_listen(struct http *h);
/* Opens the stream of a new session before other messages are sent. */
void http_listen_first(struct http *h);
void http_listen_again(struct http_request *r);
void http_listen_refused(struct http_request *r, int status);
void http_on_endpoint(struct http_request *r, const char *text, size_t n);
void http_fall_back(struct http_request *initialize, int status);
/* The server does not know the session. */
void http_reopen(struct http *h);
bool http_on_reopened(struct http_request *r, const char *text, size_t n);
void http_delete_session(struct http *h);

/* http-access.c */
extern const struct connection_host http_access_host;
void http_ask_token(struct http_request *r, int status, const char *challenge);
