/* The transport: what waits to be sent, and its order. */
#include "supervisor/hub/http/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/hub/http/access.h"
#include "supervisor/hub/http/headers.h"
#include "supervisor/hub/http/queue.h"
#include "supervisor/hub/http/response.h"
#include "supervisor/hub/http/session.h"
#include "supervisor/hub/transport/pipes.h"

static bool may_send(const struct http *h, const struct http_request *r)
{
        if (h->barrier && h->barrier != r)
                return false;
        if (h->is_reopening && r->kind != HTTP_REOPEN)
                return false;
        if (h->mode == HTTP_SSE_OPENING && r->kind != HTTP_LISTEN)
                return false;
        if (r->kind == HTTP_MESSAGE)
                return h->barrier == r || h->n_messages_sent < HTTP_SENT_MAX;
        return r->kind != HTTP_REQUEST || h->n_sent < HTTP_SENT_MAX;
}

static struct http_request *next_to_send(struct http *h)
{
        struct http_request *r;

        TAILQ_FOREACH (r, &h->requests, link) {
                if (r->state == HTTP_QUEUED && may_send(h, r))
                        return r;
        }
        return NULL;
}

static void on_due(evutil_socket_t fd, short what, void *data)
{
        struct http *h = data;
        struct http_request *r;

        if (h->mode == HTTP_ASKS_ACCESS)
                return;
        while (h->is_open && (r = next_to_send(h)))
                http_request_send(r);
}

/* ---- the transport's functions ---- */

static int prepare(struct transport *t, size_t n, struct buffer **to)
{
        struct http *h = (void *)t;

        if (!h->is_open)
                return -EPIPE;
        if (h->bytes > 0 && h->bytes + n > HTTP_BODIES_MAX)
                return -EMSGSIZE;
        if (h->n_messages >= HTTP_MESSAGES_MAX)
                return -EMSGSIZE;
        buffer_init(&h->prepared, HTTP_BODIES_MAX + 1024 * 1024);
        *to = &h->prepared;
        return 0;
}

static void abandon(struct transport *t)
{
        buffer_done(&((struct http *)(void *)t)->prepared);
}

static void add_mirrored(void *to, const char *name, const char *value, size_t n)
{
        struct http_request *r = to;
        _cleanup_free_ char *encoded = http_header_encode(value, n);
        char **grown = reallocarray(r->mirrored, r->n_mirrored + 2, sizeof(char *));

        if (!grown)
                return;
        r->mirrored = grown;
        grown[r->n_mirrored] = NULL;
        if (!encoded || asprintf(&grown[r->n_mirrored], "%s: %s", name, encoded) < 0)
                return;
        grown[++r->n_mirrored] = NULL;
}

/* Members that a modern request repeats in headers (2026-07-28, "Request Metadata"). */
static void find_headers(struct http_request *r, const struct outgoing *m)
{
        static const struct {
                const char *method, *member;
        } targets[] = {{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"}};
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct http *h = r->http;
        size_t n = 0, i = 0;

        while (i < ARRAY_SIZE(targets) && strcmp(m->method, targets[i].method) != 0)
                i++;
        if (i == ARRAY_SIZE(targets) || !m->params || json_parse(m->params, m->n, &doc, NULL) < 0)
                return;
        yyjson_val *params = yyjson_doc_get_root(doc);
        const char *text = json_string(params, targets[i].member, &n);
        if (text)
                r->target = http_header_encode(text, n);
        if (i == 0)
                h->host->mirror(h->data, params, add_mirrored, r);
}

static int keep_initialize(struct http *h, const struct buffer *body)
{
        buffer_done(&h->initialize);
        buffer_init(&h->initialize, HTTP_BODIES_MAX);
        return buffer_append(&h->initialize, buffer_bytes(body), body->length);
}

static int commit(struct transport *t, const struct outgoing *m)
{
        struct http *h = (void *)t;
        struct http_request *r = http_request_new(h, m->kind == OUTGOING_REQUEST ? HTTP_REQUEST
                                                                                 : HTTP_MESSAGE);

        if (r && m->method)
                r->method = strdup(m->method);
        if (!r || (m->method && !r->method)) {
                http_request_free(r);
                buffer_done(&h->prepared);
                return -ENOMEM;
        }
        r->id = m->id;
        r->is_modern = m->is_modern;
        r->is_initialize = m->method && strcmp(m->method, "initialize") == 0;
        r->is_initialized = m->method && strcmp(m->method, "notifications/initialized") == 0;
        if (m->method && m->is_modern)
                find_headers(r, m);
        r->body = h->prepared;
        buffer_init(&h->prepared, HTTP_BODIES_MAX);
        r->body.length--; /* the newline */
        h->bytes += r->body.length;
        h->message_bytes += r->kind == HTTP_MESSAGE ? r->body.length : 0;
        if (r->is_initialize)
                keep_initialize(h, &r->body);
        if (r->is_initialized)
                h->barrier = r;
        http_send_soon(h);
        return 0;
}

/* Without cloister-access the server cannot be used either. */
static bool has_input(const struct transport *t)
{
        const struct http *h = (const void *)t;

        return h->is_open && h->access->kind->has_input(h->access);
}

static bool has_output(const struct transport *t)
{
        const struct http *h = (const void *)t;

        return h->is_open && h->access->kind->has_output(h->access);
}

/* Only matters if a process may end before it has read. */
static bool is_read(const struct transport *t)
{
        return has_input(t);
}

static size_t queued(const struct transport *t)
{
        return ((const struct http *)(const void *)t)->message_bytes;
}

static const char *last_stderr(struct transport *t)
{
        struct http *h = (void *)t;

        return h->access->kind->last_stderr(h->access);
}

static void answered(struct transport *t, int64_t id)
{
        struct http_request *r = http_find((void *)t, id);

        if (r)
                http_request_settle(r);
}

/* MCP 2026-07-28: the end of the response's stream is the cancellation. */
static bool cancel(struct transport *t, int64_t id, bool is_modern)
{
        struct http *h = (void *)t;
        struct http_request *r = http_find(h, id);
        bool unsent = r && (r->state == HTTP_QUEUED || r->state == HTTP_WAITS_TOKEN);

        http_request_free(r);
        http_send_soon(h);
        return is_modern || unsent;
}

static void set_version(struct transport *t, const char *version)
{
        struct http *h = (void *)t;

        free(h->version);
        h->version = strdup(version);
}

static void http_close(struct transport *t)
{
        struct http *h = (void *)t;
        struct http_request *r;

        h->access->kind->close(h->access);
        if (!h->is_open)
                return;
        http_delete_session(h);
        h->is_open = false;
        while ((r = TAILQ_FIRST(&h->requests)))
                http_request_free(r);
        event_del(&h->due);
        free(h->url);
        free(h->endpoint);
        free(h->token);
        free(h->token_before);
        free(h->session);
        free(h->version);
        h->url = h->endpoint = h->token = h->token_before = h->session = h->version = NULL;
        yyjson_doc_free(h->entry);
        h->entry = NULL;
        buffer_done(&h->initialize);
}

static void http_free(struct transport *t)
{
        struct http *h = (void *)t;

        transport_free(h->access);
        free(h);
}

static const struct transport_kind kind = {
        .free = http_free,
        .close = http_close,
        .prepare = prepare,
        .commit = commit,
        .abandon = abandon,
        .has_input = has_input,
        .has_output = has_output,
        .is_read = is_read,
        .queued = queued,
        .last_stderr = last_stderr,
        .answered = answered,
        .cancel = cancel,
        .set_version = set_version,
};

void http_open(struct transport *t, const int fds[3], bool is_sse)
{
        struct http *h = (void *)t;

        pipes_open(h->access, fds);
        h->is_open = true;
        h->is_sse = is_sse;
        h->mode = HTTP_ASKS_ACCESS;
        h->has_answered = h->asks_token = h->is_reopening = false;
        h->token_number = 0;
        h->refused[0] = '\0';
}

struct transport *http_new(struct event_base *base, struct exchange_loop **loop,
                           const struct connection_host *host, void *data)
{
        const uint64_t second = 1000000;
        struct http *h;

        if (!*loop && exchange_loop_new(loop, base) < 0)
                return NULL;
        h = malloc(sizeof(*h));
        if (!h)
                return NULL;
        *h = (struct http){
                .transport = {&kind},
                .base = base,
                .loop = loop,
                .host = host,
                .incoming = &http_incoming_host,
                .data = data,
                .junk = {.window_us = second / 10, .most = 2000},
                .warnings = {.window_us = 60 * second, .most = 10},
                .reopens = {.window_us = 60 * second, .most = HTTP_REOPENS_MAX},
        };
        TAILQ_INIT(&h->requests);
        evtimer_assign(&h->due, base, on_due, h);
        h->access = pipes_new(base, &http_access_host, h);
        if (!h->access) {
                free(h);
                return NULL;
        }
        return &h->transport;
}
