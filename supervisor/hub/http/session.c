/* Sessions, the stream of what the server says by itself, and HTTP+SSE. */
#include "supervisor/hub/http/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/hub/http/queue.h"

/* ---- the stream ---- */

void http_listen(struct http *h)
{
        if (h->listen)
                return;
        h->listen = http_request_new(h, HTTP_LISTEN);
        if (h->listen)
                http_send_soon(h);
}

void http_listen_first(struct http *h)
{
        const struct timeval in = clock_timeval_ms(HTTP_LISTEN_MS);

        http_listen(h);
        if (!h->listen || h->listen->state != HTTP_QUEUED)
                return;
        h->barrier = h->listen;
        evtimer_add(&h->listen->again, &in);
}

unsigned http_retry_ms(int64_t wanted)
{
        return wanted < HTTP_RETRY_MIN_MS   ? HTTP_RETRY_MIN_MS
               : wanted > HTTP_RETRY_MAX_MS ? HTTP_RETRY_MAX_MS
                                            : (unsigned)wanted;
}

/* Doubles from one attempt without an event to the next, unless the server says when. */
static unsigned listen_delay(const struct http_request *r)
{
        int64_t ms = r->incoming.events.retry_ms;
        unsigned doubled = (unsigned)HTTP_RETRY_MS << (r->tries < 6 ? r->tries : 6);

        if (ms < 0 || (r->tries > 1 && ms < doubled))
                ms = doubled;
        return http_retry_ms(ms);
}

/* The stream of HTTP+SSE has all answers: without it the server is of no use. */
static void lose_stream(struct http_request *r)
{
        struct http *h = r->http;

        if (h->mode == HTTP_SSE)
                http_fail(h, "lost its event stream");
        else if (h->refused[0])
                http_fail(h, "%s, and its url gives no event stream with an endpoint (HTTP+SSE)",
                          h->refused);
        else
                http_fail(h, "gives no event stream with an endpoint (HTTP+SSE)");
}

void http_listen_again(struct http_request *r)
{
        if (r->http->mode != HTTP_STREAMABLE) {
                lose_stream(r);
                return;
        }
        unsigned ms = listen_delay(r);
        http_request_release(r);
        r->tries++;
        http_request_wait(r, ms);
}

void http_request_fail(struct http_request *r, const char *format, ...)
{
        struct http *h = r->http;
        enum http_kind kind = r->kind;
        int64_t id = r->id;
        char why[600];
        va_list args;

        va_start(args, format);
        vsnprintf(why, sizeof(why), format, args);
        va_end(args);
        if (kind == HTTP_LISTEN) {
                http_listen_again(r);
                return;
        }
        if (kind == HTTP_MESSAGE && rate_allow(&h->warnings, 1, NULL))
                log_warning("server %s: a message could not be sent: %s", h->host->name(h->data),
                            why);
        bool is_initialized = r->is_initialized;
        http_request_free(r);
        http_send_soon(h);
        if (kind == HTTP_REOPEN)
                http_fail(h, "has ended the session, and cannot begin another: %s", why);
        else if (kind == HTTP_REQUEST && !h->has_answered)
                h->host->failed(h->data, why);
        else if (kind == HTTP_REQUEST)
                h->host->unanswered(h->data, id, why);
        else if (is_initialized)
                http_fail(h, "refused notifications/initialized: %s", why);
}

void http_listen_refused(struct http_request *r, int status)
{
        struct http *h = r->http;

        if (h->mode != HTTP_STREAMABLE) {
                lose_stream(r);
                return;
        }
        if (status >= 500 || status == 429) {
                http_listen_again(r);
                return;
        }
        /* 405: it has no such stream. */
        log_debug("server %s: no stream beside the calls: HTTP status %d", h->host->name(h->data),
                  status);
        http_request_free(r);
}

/* ---- HTTP+SSE ---- */

void http_on_endpoint(struct http_request *r, const char *text, size_t n)
{
        struct http *h = r->http;
        _cleanup_free_ char *reference = strndup(text, n);
        char *endpoint = reference ? exchange_resolve(h->url, reference) : NULL;

        if (!endpoint) {
                http_fail(
                        h,
                        "names an endpoint that has another origin than its url, or is not a url");
                return;
        }
        free(h->endpoint);
        h->endpoint = endpoint;
        h->mode = HTTP_SSE;
        http_send_soon(h);
}

void http_fall_back(struct http_request *initialize, int status)
{
        struct http *h = initialize->http;

        snprintf(h->refused, sizeof(h->refused), "refused initialize with HTTP status %d", status);
        h->mode = HTTP_SSE_OPENING;
        initialize->exchange = exchange_free(initialize->exchange);
        buffer_consume(&initialize->refusal, initialize->refusal.length);
        initialize->state = HTTP_QUEUED;
        http_listen(h);
}

/* ---- sessions ---- */

void http_reopen(struct http *h)
{
        struct http_request *r;

        if (h->is_reopening)
                return;
        if (!rate_allow(&h->reopens, 1, NULL)) {
                http_fail(h, "ended its session more than %d times in a minute", HTTP_REOPENS_MAX);
                return;
        }
        log_info("server %s: does not know its session any more: a new session is started",
                 h->host->name(h->data));
        free(h->session);
        h->session = NULL;
        r = http_request_new(h, HTTP_REOPEN);
        if (!r || buffer_append(&r->body, buffer_bytes(&h->initialize), h->initialize.length) < 0) {
                http_request_free(r);
                http_fail(h, "has ended its session, and there is no memory for another");
                return;
        }
        h->is_reopening = true;
        http_send_soon(h);
}

static int send_initialized(struct http *h)
{
        static const char text[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
        struct http_request *r = http_request_new(h, HTTP_MESSAGE);

        if (!r || buffer_append(&r->body, text, sizeof(text) - 1) < 0) {
                http_request_free(r);
                return -ENOMEM;
        }
        r->is_initialized = true;
        h->bytes += r->body.length;
        h->message_bytes += r->body.length;
        h->barrier = r;
        return 0;
}

/* The answer to initialize in a new session must agree on the same version. */
bool http_on_reopened(struct http_request *r, const char *text, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message m = {};
        struct http *h = r->http;
        struct error err = {};

        int e = jsonrpc_parse(text, n, &m, &err);
        if (e >= 0 && (m.kind == JSONRPC_REQUEST || m.kind == JSONRPC_NOTIFICATION))
                return true;
        const char *version = e < 0 ? NULL : json_string(m.result, "protocolVersion", NULL);
        if (!version || strcmp(version, h->version) != 0) {
                http_request_fail(r, "its answer to initialize differs from the first one");
                return true;
        }
        h->is_reopening = false;
        http_request_free(r);
        http_request_free(h->listen);
        if (send_initialized(h) < 0) {
                http_fail(h, "has ended its session, and there is no memory for another");
                return true;
        }
        http_send_soon(h);
        h->host->reopened(h->data);
        return true;
}

void http_delete_session(struct http *h)
{
        struct http_request r = {.http = h, .kind = HTTP_MESSAGE};
        struct error err = {};

        if (!h->session || h->mode != HTTP_STREAMABLE)
                return;
        char **headers = http_headers_new(&r);
        const struct exchange_request request = {
                .method = EXCHANGE_DELETE,
                .url = h->url,
                .headers = (const char *const *)headers,
                .timeout_ms = EXCHANGE_CLOSING_MS,
        };
        if (headers && !exchange_start(*h->loop, &request, NULL, NULL, &err))
                log_debug("server %s: its session is not ended: %s", h->host->name(h->data),
                          err.text);
        http_headers_free(headers);
}
