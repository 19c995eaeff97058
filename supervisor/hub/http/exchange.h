/*
 * One HTTP request and its response, by libcurl in the event loop.
 *
 * The callbacks run from the event loop, never from inside a function of this header: head(), body() as
 * often as there are bytes, end(). A callback may free its exchange, and any other. The body
 * is kept until its owner takes it: at most EXCHANGE_KEPT_MAX bytes, then libcurl stops to read, and
 * the server blocks.
 *
 * Only http and https. A redirect is followed only to the same origin, at most EXCHANGE_REDIRECTS_MAX
 * times, and by a POST only when the status says that it stays a POST (307, 308). Compression is not
 * offered. The headers of a response are bounded, and so is the time until the connection stands.
 */
#pragma once

#include <curl/curl.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
        EXCHANGE_HEADERS_MAX = 128 * 1024, /* bytes of all, those of 1xx and redirects included */
        EXCHANGE_CONTENT_TYPE_MAX = 127,
        EXCHANGE_SESSION_MAX = 1024,
        EXCHANGE_CHALLENGE_MAX = 8 * 1024,
};

struct exchange_head {
        int status;                                       /* 0: none yet */
        char content_type[EXCHANGE_CONTENT_TYPE_MAX + 1]; /* lower case, without parameters */
        char session[EXCHANGE_SESSION_MAX + 1];           /* Mcp-Session-Id; "": none */
        bool session_is_bad;                              /* too long, or not visible ASCII */
        char challenge[EXCHANGE_CHALLENGE_MAX + 1]; /* WWW-Authenticate, several joined by ", " */
        bool is_redirect; /* the status is one of a redirect, and there is a Location */
        bool is_whole;
        size_t bytes; /* of all lines */
};

/* Takes a line with its end. Returns 1 if the head is whole, 0, or -EMSGSIZE: more than
 * EXCHANGE_HEADERS_MAX bytes have come. */
int exchange_head_line(struct exchange_head *head, const char *line, size_t n);

enum {
        EXCHANGE_KEPT_MAX = 64 * 1024,
        EXCHANGE_REDIRECTS_MAX = 3,
        EXCHANGE_CONNECT_MS = 15000,
        EXCHANGE_CLOSING_MS = 2000, /* for an exchange without an owner, */
        EXCHANGE_CLOSING_MAX = 64,  /* of which there are at most these */
        EXCHANGE_LINGER_MS = 300,   /* for all of these when the loop is freed */
};

struct exchange;
struct exchange_loop; /* all exchanges of an event loop: connections, names, TLS sessions */

/* Returns 0 or -ENOMEM. */
int exchange_loop_new(struct exchange_loop **ret, struct event_base *base);
/* The exchanges of owners must be freed before. Those without an owner get EXCHANGE_LINGER_MS. */
struct exchange_loop *exchange_loop_free(struct exchange_loop *loop);

struct exchange_host {
        void (*head)(void *data);
        /* Returns how many bytes were used; body() gets the rest again after exchange_resume(). */
        size_t (*body)(void *data, const char *bytes, size_t n);
        /* why: NULL: the response is complete; else why there is none, or not all of it. */
        void (*end)(void *data, const char *why);
};

enum exchange_method { EXCHANGE_POST, EXCHANGE_GET, EXCHANGE_DELETE };

struct exchange_request {
        enum exchange_method method;
        const char *url;
        const char *const *headers; /* "NAME: value", NULL-terminated */
        const char *body;           /* borrowed until the end; POST only */
        size_t n;
        unsigned timeout_ms; /* of the whole; 0: none */
};

/* host NULL: the exchange has no owner, and frees itself; the request has no body. */
struct exchange *exchange_start(struct exchange_loop *loop, const struct exchange_request *request,
                                const struct exchange_host *host, void *data, struct error *err);
/* The connection is closed if the response is not complete. NULL is allowed. Returns NULL. */
struct exchange *exchange_free(struct exchange *x);

/* Stops body() and end(), and starts them again. */
void exchange_pause(struct exchange *x);
void exchange_resume(struct exchange *x);

/* Resolves a reference against a url. Returns the absolute url, which the caller frees; NULL when it is
 * not a url, or of another origin (scheme, host and port). */
char *exchange_resolve(const char *url, const char *reference);
/* "https://host:port" of a url, for messages, which the caller frees; NULL: it is not a url. */
char *exchange_origin(const char *url);

/* ---- for exchange.c, and for tests that stand in for libcurl ---- */

TAILQ_HEAD(exchange_list, exchange);

struct exchange_loop {
        struct event_base *base;
        CURLM *multi;
        struct event timer; /* libcurl's */
        struct event ready; /* exchanges have news */
        struct exchange_list all;
        struct exchange *told; /* its callback runs; NULL when it was freed meanwhile */
        unsigned n_left;       /* without an owner */
};

struct exchange {
        TAILQ_ENTRY(exchange) link;
        struct exchange_loop *loop;
        const struct exchange_host *host; /* NULL: it has no owner */
        void *data;
        CURL *easy;
        struct curl_slist *headers;
        enum exchange_method method;
        char *url;
        unsigned redirects;
        struct exchange_head head; /* of the response so far */
        bool head_told, end_told;
        struct buffer body; /* that the owner has not taken */
        bool is_full;       /* libcurl waits */
        bool is_paused;     /* the owner wants no news */
        bool is_done;       /* libcurl has ended it */
        const char *sent;   /* body of the request, borrowed; n_sent bytes, sent_at of them read */
        size_t n_sent, sent_at;
        char why[512]; /* "": the response is complete */
        char curl_error[CURL_ERROR_SIZE];
};
