/* The requests of a transport that wait or are sent. */
#include "supervisor/hub/http/queue.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/share.h"

void http_send_soon(struct http *h)
{
        event_active(&h->due, EV_TIMEOUT, 0);
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
        struct http *h = r->http;
        unsigned i = 0;

        if (r->is_counted == is_sent || (r->kind != HTTP_REQUEST && r->kind != HTTP_MESSAGE))
                return;
        r->is_counted = is_sent;
        if (r->kind == HTTP_MESSAGE) {
                h->n_messages_sent += is_sent ? 1U : -1U;
        } else if (is_sent) {
                assert(h->n_sent < HTTP_SENT_MAX);
                h->sent_for[h->n_sent++] = r->principal;
        } else {
                while (h->sent_for[i] != r->principal)
                        i++;
                h->sent_for[i] = h->sent_for[--h->n_sent];
        }
}

bool http_may_count(const struct http *h, uint64_t principal)
{
        size_t own = 0;

        for (unsigned i = 0; i < h->n_sent && principal != 0; i++)
                own += h->sent_for[i] == principal;
        return principal == 0 ? h->n_sent < HTTP_SENT_MAX
                              : share_allows(own, h->n_sent, HTTP_SENT_MAX, 1);
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

enum { OWN_MAX = 12 };

struct list {
        char **items;
        size_t n;
        bool failed;
};

static void add(struct list *list, const char *name, const char *value)
{
        if (!value || list->failed)
                return;
        if (asprintf(&list->items[list->n], "%s: %s", name, value) < 0) {
                list->items[list->n] = NULL;
                list->failed = true;
                return;
        }
        list->n++;
}

static void add_line(struct list *list, const char *line)
{
        list->items[list->n] = strdup(line);
        list->failed |= !list->items[list->n];
        list->n += list->items[list->n] != NULL;
}

static void add_protocol(struct list *list, const struct http_request *r)
{
        const struct http *h = r->http;
        bool begins = r->is_initialize || r->kind == HTTP_REOPEN;

        if (r->is_modern) {
                add(list, "MCP-Protocol-Version", "2026-07-28");
                add(list, "Mcp-Method", r->method);
                add(list, "Mcp-Name", r->target);
                return;
        }
        /* The header has been since 2025-06-18. */
        if (!begins && h->version && strcmp(h->version, "2025-06-18") >= 0)
                add(list, "MCP-Protocol-Version", h->version);
        if (!begins)
                add(list, "Mcp-Session-Id", h->session);
        if ((r->resumes || r->kind == HTTP_LISTEN) && r->incoming.events.last_id[0])
                add(list, "Last-Event-ID", r->incoming.events.last_id);
}

static void add_token(struct list *list, const char *token)
{
        _cleanup_free_ char *bearer = NULL;

        if (!token)
                return;
        if (asprintf(&bearer, "Bearer %s", token) < 0) {
                bearer = NULL;
                list->failed = true;
        }
        add(list, "Authorization", bearer);
}

/* Those of the entry; a token takes the place of its Authorization. */
static void add_entry(struct list *list, const struct http *h)
{
        yyjson_val *headers = yyjson_obj_get(yyjson_doc_get_root(h->entry), "headers"), *header;
        size_t i, n;

        yyjson_arr_foreach (headers, i, n, header) {
                const char *text = yyjson_get_str(header);
                if (!text || (h->token && strncasecmp(text, "authorization:", 14) == 0))
                        continue;
                add_line(list, text);
        }
}

char **http_headers_new(const struct http_request *r)
{
        const struct http *h = r->http;
        yyjson_val *headers = yyjson_obj_get(yyjson_doc_get_root(h->entry), "headers");
        bool is_get = r->kind == HTTP_LISTEN || r->resumes;
        struct list list = {
                .items = calloc(yyjson_arr_size(headers) + r->n_mirrored + OWN_MAX + 1,
                                sizeof(char *)),
        };

        if (!list.items)
                return NULL;
        add(&list, "Accept", is_get ? "text/event-stream" : "application/json, text/event-stream");
        if (!is_get)
                add(&list, "Content-Type", "application/json");
        add_protocol(&list, r);
        for (size_t i = 0; i < r->n_mirrored; i++)
                add_line(&list, r->mirrored[i]);
        add_token(&list, h->token);
        add_entry(&list, h);
        if (!list.failed)
                return list.items;
        http_headers_free(list.items);
        return NULL;
}

/* 2026-07-28, "Value Encoding": what cannot be a header's value as it is goes as =?base64?…?=. */
static bool is_plain(const char *text, size_t n)
{
        if (n > 0 && (text[0] == ' ' || text[n - 1] == ' '))
                return false;
        if (n >= 9 && strncmp(text, "=?base64?", 9) == 0)
                return false;
        for (size_t i = 0; i < n; i++) {
                if (text[i] < ' ' || text[i] > '~')
                        return false;
        }
        return true;
}

char *http_header_encode(const char *text, size_t n)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(2 * n + 64);

        if (is_plain(text, n))
                return strndup(text, n);
        if (buffer_append_text(&b, "=?base64?") < 0 || base64_append(&b, text, n) < 0 ||
            buffer_append(&b, "?=", 3) < 0)
                return NULL;
        return strdup(buffer_bytes(&b));
}
