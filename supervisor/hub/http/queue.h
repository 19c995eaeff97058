/*
 * The requests of a transport (http.h) that wait or are sent, for the files of this folder: the order in
 * which they are sent, and their memory.
 */
#pragma once

#include <event2/event_struct.h>
#include <sys/queue.h>

#include "supervisor/hub/http/exchange.h"
#include "supervisor/hub/http/incoming.h"
#include "supervisor/hub/transport/transport.h"

enum {
        HTTP_SENT_MAX = 64,         /* requests, and messages, at the same time; more wait */
        HTTP_MESSAGES_MAX = 1024,   /* notifications and answers that wait or are sent */
        HTTP_MESSAGE_MS = 30000,    /* for the response to one of these */
        HTTP_BODIES_MAX = 64 << 20, /* of all messages, except a single one */
        HTTP_ERROR_MAX = 64 * 1024, /* of the body of a refusal */
        HTTP_LISTEN_MS = 500,       /* that other messages wait for the stream's response */
        HTTP_ANSWERED_MS = 1000,    /* from the answer to the end of the response */
        HTTP_RETRY_MS = 1000, /* to the next attempt to resume a stream, unless the server says */
        HTTP_RETRY_MIN_MS = 100, /* the bounds of what it says */
        HTTP_RETRY_MAX_MS = 60000,
        HTTP_RESUMES_MAX = 5,  /* of a request, without an event in between */
        HTTP_REOPENS_MAX = 10, /* in a minute */
};

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
        char **mirrored; /* "Mcp-Param-NAME: value" and those of the trace, NULL-terminated, or NULL */
        size_t n_mirrored;
        struct buffer body;
        struct exchange *exchange;
        struct incoming incoming;
        bool reads;      /* the response is being read as messages */
        bool has_stream; /* it is an event stream */
        struct event again;
        bool is_answered;
        bool resumes;    /* by GET */
        bool is_counted; /* in n_sent */
        uint64_t principal;
        bool had_token, had_session;           /* sent again with another one */
        unsigned token_number, session_number; /* that it was sent with */
        unsigned tries;                        /* without an event */
        struct buffer refusal;                 /* the body of a response without success */
};

struct http {
        struct transport transport; /* first */
        struct event_base *base;
        struct exchange_loop **loop;
        const struct connection_host *host;
        void *data;
        const struct incoming_host *incoming; /* of a struct http_request */
        struct transport *access;             /* the pipes of cloister-access */
        bool is_open;
        bool is_sse; /* by the config */
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
        uint64_t sent_for[HTTP_SENT_MAX]; /* principals of those that are sent */
        size_t bytes, message_bytes;
        struct buffer prepared;
};

/* Whether one more request of this principal may be sent. */
bool http_may_count(const struct http *h, uint64_t principal);
/* Sends what may be sent, from the loop. */
void http_send_soon(struct http *h);
/* The server cannot be used. May close the transport. why: a predicate. */
void http_fail(struct http *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct http_request *http_request_new(struct http *h, enum http_kind kind);
struct http_request *http_request_free(struct http_request *r);
/* Whether it is among the requests, or messages, that are sent: these are limited. */
void http_request_count(struct http_request *r, bool is_sent);
/* Sends it again when its turn comes. */
void http_request_requeue(struct http_request *r);
/* Others need not wait for its response any more. */
void http_request_release(struct http_request *r);
/* Sends it again, or tries its stream again, after a time. */
void http_request_wait(struct http_request *r, unsigned ms);
/* It has been answered, or is not needed: ends soon. */
void http_request_settle(struct http_request *r);

/* Frees a NULL-terminated list of headers; NULL is allowed. */
void http_headers_free(char **headers);

/* "NAME: value", NULL-terminated; free with http_headers_free(). NULL: no memory. */
char **http_headers_new(const struct http_request *r);

/* The value of Mcp-Name or of a mirrored parameter, encoded if necessary; the caller frees it. */
char *http_header_encode(const char *text, size_t n);
