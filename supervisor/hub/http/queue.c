/* The requests of a transport that wait or are sent. */
#include "supervisor/hub/http/queue.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

void http_send_soon(struct http *h)
{
        event_active(&h->due, EV_TIMEOUT, 0);
}

struct http_request *http_find(struct http *h, int64_t id)
{
        struct http_request *r;

        TAILQ_FOREACH (r, &h->requests, link) {
                if (r->kind == HTTP_REQUEST && r->id == id)
                        return r;
        }
        return NULL;
}

void http_fail(struct http *h, const char *format, ...)
{
        char why[600];
        va_list args;

        va_start(args, format);
        vsnprintf(why, sizeof(why), format, args);
        va_end(args);
        h->host->failed(h->data, why);
}

void http_request_count(struct http_request *r, bool is_sent)
{
        bool is_message = r->kind == HTTP_MESSAGE;

        if (r->is_counted == is_sent || (r->kind != HTTP_REQUEST && !is_message))
                return;
        r->is_counted = is_sent;
        *(is_message ? &r->http->n_messages_sent : &r->http->n_sent) += is_sent ? 1U : -1U;
}

void http_request_requeue(struct http_request *r)
{
        r->exchange = exchange_free(r->exchange);
        incoming_stop(&r->incoming);
        buffer_consume(&r->refusal, r->refusal.length);
        http_request_count(r, false);
        r->state = HTTP_QUEUED;
        http_send_soon(r->http);
}

void http_request_release(struct http_request *r)
{
        if (r->http->barrier != r)
                return;
        r->http->barrier = NULL;
        event_del(&r->again);
        http_send_soon(r->http);
}

static void on_again(evutil_socket_t fd, short what, void *data)
{
        struct http_request *r = data;

        if (r->http->barrier == r) {
                http_request_release(r);
        } else if (r->is_answered) {
                struct http *h = r->http;
                http_request_free(r);
                http_send_soon(h);
        } else {
                http_request_requeue(r);
        }
}

void http_request_settle(struct http_request *r)
{
        const struct timeval in = clock_timeval_ms(HTTP_ANSWERED_MS);

        r->is_answered = true;
        http_request_count(r, false);
        http_send_soon(r->http);
        if (r->exchange)
                evtimer_add(&r->again, &in);
        else
                event_active(&r->again, EV_TIMEOUT, 0);
}

void http_request_wait(struct http_request *r, unsigned ms)
{
        const struct timeval in = clock_timeval_ms(ms);

        r->exchange = exchange_free(r->exchange);
        incoming_stop(&r->incoming);
        r->state = HTTP_WAITS_AGAIN;
        evtimer_add(&r->again, &in);
}

void http_headers_free(char **headers)
{
        for (size_t i = 0; headers && headers[i]; i++)
                free(headers[i]);
        free(headers);
}

struct http_request *http_request_new(struct http *h, enum http_kind kind)
{
        struct http_request *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->http = h;
        r->kind = kind;
        buffer_init(&r->body, HTTP_BODIES_MAX);
        buffer_init(&r->refusal, HTTP_ERROR_MAX);
        incoming_init(&r->incoming, h->base, h->incoming, r);
        evtimer_assign(&r->again, h->base, on_again, r);
        h->n_messages += kind == HTTP_MESSAGE;
        TAILQ_INSERT_TAIL(&h->requests, r, link);
        return r;
}

struct http_request *http_request_free(struct http_request *r)
{
        struct http *h = r ? r->http : NULL;

        if (!r)
                return NULL;
        http_request_release(r);
        if (h->listen == r)
                h->listen = NULL;
        http_request_count(r, false);
        h->n_messages -= r->kind == HTTP_MESSAGE;
        if (r->kind == HTTP_REQUEST || r->kind == HTTP_MESSAGE)
                h->bytes -= r->body.length;
        h->message_bytes -= r->kind == HTTP_MESSAGE ? r->body.length : 0;
        TAILQ_REMOVE(&h->requests, r, link);
        event_del(&r->again);
        incoming_done(&r->incoming);
        exchange_free(r->exchange);
        buffer_done(&r->body);
        buffer_done(&r->refusal);
        free(r->method);
        free(r->target);
        http_headers_free(r->mirrored);
        free(r);
        return NULL;
}
