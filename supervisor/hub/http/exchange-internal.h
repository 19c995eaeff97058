/* What exchange.c and exchange-loop.c share. */
#pragma once

#include <curl/curl.h>
#include <event2/event_struct.h>
#include <sys/queue.h>

#include "supervisor/hub/http/exchange.h"

TAILQ_HEAD(exchange_list, exchange);

struct exchange_loop {
        struct event_base *base;
        CURLM *multi;
        struct event timer; /* libcurl's */
        struct event ready; /* exchanges have news */
        struct exchange_list all;
        struct exchange *told; /* its callback runs; NULL when it was freed meanwhile */
        unsigned n_left;       /* that nobody waits for */
};

struct exchange {
        TAILQ_ENTRY(exchange) link;
        struct exchange_loop *loop;
        const struct exchange_host *host; /* NULL: nobody waits for it */
        void *data;
        CURL *easy;
        struct curl_slist *headers;
        enum exchange_method method;
        char *url;
        unsigned redirects;
        struct exchange_head head;
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

/* exchange-loop.c */
int exchange_add(struct exchange *x);
void exchange_remove(struct exchange *x);
/* Something is to be told to the owner. */
void exchange_touch(struct exchange_loop *loop);

/* exchange.c: libcurl has ended it. */
void exchange_finish(struct exchange *x, CURLcode result);
/* Tells the owner one thing. Returns whether there was one. */
bool exchange_tell(struct exchange *x);
