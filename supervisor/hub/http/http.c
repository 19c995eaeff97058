/* The transport: what waits to be sent, and its order. */
#include "supervisor/hub/http/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "rpc/jsonrpc.h"
#include "supervisor/hub/http/queue.h"
#include "supervisor/hub/http/session.h"
#include "supervisor/hub/transport/pipes.h"

static void complete(struct http_request *r);

static bool is_success(const struct exchange_head *head)
{
        return head->status / 100 == 2;
}

/* A stream has ended before the answer. Returns whether it will be resumed. */
static bool resume(struct http_request *r)
{
        int64_t ms = r->incoming.events.retry_ms;

        if (r->kind != HTTP_REQUEST || r->is_modern || !r->has_stream ||
            !r->incoming.events.last_id[0] || r->tries++ == HTTP_RESUMES_MAX)
                return false;
        http_request_count(r, false);
        r->resumes = true;
        http_request_wait(r, http_retry_ms(ms < 0 ? HTTP_RETRY_MS : ms));
        return true;
}

/* ---- a refusal ---- */

/* The refusal may be an answer of JSON-RPC, whose id a server that did not read the request does not
 * know. Returns false when it is not an answer. */
static bool tell_error(struct http_request *r, int status)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(2 * HTTP_ERROR_MAX);
        _cleanup_jsonrpc_ struct jsonrpc_message m = {};
        struct http *h = r->http;
        struct error err = {};

        if (r->kind != HTTP_REQUEST || r->refusal.length == 0 ||
            jsonrpc_parse(buffer_bytes(&r->refusal), r->refusal.length, &m, &err) < 0 ||
            m.kind != JSONRPC_ERROR)
                return false;
        struct json_out out = {.to = &text};
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "jsonrpc", "2.0");
        json_out_int(&out, "id", r->id);
        json_out_value(&out, "error", yyjson_obj_get(yyjson_doc_get_root(m.doc), "error"));
        json_out_end(&out, '}');
        if (out.error < 0)
                return false;
        http_request_free(r);
        http_send_soon(h);
        if (status / 100 == 4)
                h->host->refused(h->data, buffer_bytes(&text), text.length);
        else
                h->host->line(h->data, buffer_bytes(&text), text.length);
        return true;
}

static bool is_of_old_session(const struct http_request *r, int status)
{
        const struct http *h = r->http;

        return status == 404 && r->session_number != 0 && !r->is_modern && !r->is_initialize &&
               h->version;
}

static void on_lost_session(struct http_request *r)
{
        struct http *h = r->http;

        if (r->had_session) {
                http_request_fail(r, "does not know the session that it has just begun");
                return;
        }
        if (r->session_number == h->session_number)
                http_reopen(h);
        if (!h->is_open)
                return;
        if (r->kind == HTTP_LISTEN || r->is_initialized) {
                /* The next session gets its own. */
                http_request_free(r);
        } else if (r->resumes) {
                http_request_fail(r, "has ended the session while the request ran");
        } else {
                r->had_session = true;
                http_request_requeue(r);
        }
}

static void on_refused(struct http_request *r)
{
        const struct exchange_head *head = &r->exchange->head;
        struct http *h = r->http;
        int status = head->status;

        if (status == 401 || (status == 403 && head->challenge[0])) {
                if (r->token_number != h->token_number && !r->had_token) {
                        r->had_token = true;
                        http_request_requeue(r);
                } else if (!r->had_token) {
                        http_ask_token(r, status, head->challenge);
                } else {
                        http_request_fail(r, "refuses the new token too (HTTP status %d)", status);
                }
        } else if (is_of_old_session(r, status)) {
                on_lost_session(r);
        } else if (r->kind == HTTP_LISTEN) {
                http_listen_refused(r, status);
        } else if (!tell_error(r, status)) {
                if (r->is_initialize && h->mode == HTTP_STREAMABLE &&
                    (status == 400 || status == 404 || status == 405))
                        http_fall_back(r, status);
                else if (r->resumes)
                        http_request_fail(
                                r,
                                "ended its stream before the answer, and refuses to resume it (HTTP status %d)",
                                status);
                else
                        http_request_fail(r, "answered with HTTP status %d", status);
        }
}

/* ---- messages in the response ---- */

static bool on_message(void *data, const char *event, const char *text, size_t n)
{
        struct http_request *r = data;
        struct http *h = r->http;

        if (r->kind == HTTP_REOPEN)
                return http_on_reopened(r, text, n);
        if (r->kind == HTTP_LISTEN && h->mode >= HTTP_SSE_OPENING &&
            strcmp(event, "endpoint") == 0) {
                http_on_endpoint(r, text, n);
                return true;
        }
        if (*event && strcmp(event, "message") != 0)
                return rate_allow(&h->junk, 1, NULL);
        return h->host->line(h->data, text, n) || rate_allow(&h->junk, 1, NULL);
}

static bool on_parsed(void *data, struct large_line *line)
{
        struct http_request *r = data;
        struct http *h = r->http;

        if (r->kind == HTTP_REOPEN) {
                http_request_fail(r, "answered initialize with more than %d KiB",
                                  RESERVATION_MIN / 1024);
                return true;
        }
        return h->host->parsed(h->data, line) || rate_allow(&h->junk, 1, NULL);
}

static void on_event(void *data)
{
        ((struct http_request *)data)->tries = 0;
}

static void on_failed(void *data, const char *why)
{
        http_request_fail(data, "%s", why);
}

static void on_incoming_end(void *data)
{
        complete(data);
}

static const struct incoming_host incoming_host = {
        .message = on_message,
        .parsed = on_parsed,
        .event = on_event,
        .failed = on_failed,
        .end = on_incoming_end,
};

/* ---- the response ---- */

/* The whole response of a success was handled. */
static void complete(struct http_request *r)
{
        struct http *h = r->http;

        if (r->kind == HTTP_LISTEN) {
                http_listen_again(r);
        } else if (r->kind == HTTP_REOPEN) {
                http_request_fail(r, "it gave no valid answer to initialize");
        } else if (r->kind == HTTP_MESSAGE || r->is_answered) {
                http_request_free(r);
                http_send_soon(h);
        } else if (h->mode == HTTP_SSE) {
                r->exchange = exchange_free(r->exchange);
                r->state = HTTP_WAITS_STREAM;
        } else if (!resume(r)) {
                http_request_fail(r, "%s",
                                  !r->reads       ? "accepted the request without answering it"
                                  : r->has_stream ? "ended its stream without the answer"
                                                  : "answered, but not to the request");
        }
}

/* Takes the session of an answer to initialize. Returns whether the response can be used. */
static bool take_session(struct http_request *r, const struct exchange_head *head)
{
        struct http *h = r->http;

        if (!r->is_initialize && r->kind != HTTP_REOPEN)
                return true;
        if (head->session_is_bad) {
                http_request_fail(
                        r,
                        "gave a session id that has other characters than visible ASCII, or too long");
                return false;
        }
        free(h->session);
        h->session = head->session[0] ? strdup(head->session) : NULL;
        h->session_number++;
        return true;
}

static void on_head(void *data)
{
        struct http_request *r = data;
        struct http *h = r->http;
        const struct exchange_head *head = &r->exchange->head;
        bool is_json = strcmp(head->content_type, "application/json") == 0;

        h->has_answered = true;
        r->has_stream = strcmp(head->content_type, "text/event-stream") == 0;
        r->reads = false;
        if (!is_success(head) || !take_session(r, head))
                return;
        /* A stream may outlive its token, and is then opened again with another one. */
        r->had_token = false;
        http_request_release(r);
        if (r->is_initialized && h->mode == HTTP_STREAMABLE)
                http_listen_first(h);
        if (head->status == 202 || head->status == 204 || r->kind == HTTP_MESSAGE ||
            (h->mode == HTTP_SSE && r->kind == HTTP_REQUEST))
                return;
        if (r->has_stream || (is_json && r->kind != HTTP_LISTEN)) {
                r->reads = true;
                incoming_begin(&r->incoming, r->exchange, r->has_stream);
        } else if (r->kind == HTTP_LISTEN) {
                http_listen_refused(r, head->status);
        } else {
                http_request_fail(
                        r, "answered with content type \"%.80s\", not with JSON or an event stream",
                        head->content_type);
        }
}

static size_t on_body(void *data, const char *bytes, size_t n)
{
        struct http_request *r = data;

        if (r->reads)
                return incoming_feed(&r->incoming, bytes, n);
        if (!is_success(&r->exchange->head))
                (void)buffer_append(&r->refusal, bytes, n);
        return n;
}

static void on_end(void *data, const char *why)
{
        struct http_request *r = data;
        const struct exchange_head *head = &r->exchange->head;

        /* A refusal says enough if its body was cut; a redirect does not. */
        if (why && (head->status == 0 || is_success(head) || head->status / 100 == 3)) {
                if (r->is_answered)
                        complete(r);
                else if (!(head->status && resume(r)))
                        http_request_fail(r, "%s", why);
        } else if (!is_success(head)) {
                on_refused(r);
        } else if (r->reads) {
                incoming_finish(&r->incoming);
        } else {
                complete(r);
        }
}

static const struct exchange_host exchange_host = {
        .head = on_head,
        .body = on_body,
        .end = on_end,
};

static void http_request_send(struct http_request *r)
{
        struct http *h = r->http;
        bool is_get = r->kind == HTTP_LISTEN || r->resumes;
        char **headers = http_headers_new(r);
        struct error err = {};
        const struct exchange_request request = {
                .method = is_get ? EXCHANGE_GET : EXCHANGE_POST,
                .url = h->mode == HTTP_SSE && !is_get ? h->endpoint : h->url,
                .headers = (const char *const *)headers,
                .body = is_get ? NULL : buffer_bytes(&r->body),
                .n = is_get ? 0 : r->body.length,
                .timeout_ms = r->kind == HTTP_MESSAGE ? HTTP_MESSAGE_MS : 0,
        };

        r->state = HTTP_SENT;
        r->token_number = h->token_number;
        r->session_number = h->session ? h->session_number : 0;
        http_request_count(r, true);
        if (headers)
                r->exchange = exchange_start(*h->loop, &request, &exchange_host, r, &err);
        http_headers_free(headers);
        if (!r->exchange)
                http_request_fail(r, "%s", headers ? err.text : "out of memory");
}

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
        return r->kind != HTTP_REQUEST || http_may_count(h, r->principal);
}

static struct http_request *next_to_send(struct http *h)
{
        uint64_t full = 0; /* a principal that may send none now */
        struct http_request *r;

        TAILQ_FOREACH (r, &h->requests, link) {
                if (r->state != HTTP_QUEUED || (full != 0 && r->principal == full))
                        continue;
                if (may_send(h, r))
                        return r;
                full = r->principal;
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

/* value: as it is sent; NULL: out of memory, and the header is left out. */
static void add_header(struct http_request *r, const char *name, const char *value)
{
        char **grown = reallocarray(r->mirrored, r->n_mirrored + 2, sizeof(char *));

        if (!grown)
                return;
        r->mirrored = grown;
        grown[r->n_mirrored] = NULL;
        if (!value || asprintf(&grown[r->n_mirrored], "%s: %s", name, value) < 0)
                return;
        grown[++r->n_mirrored] = NULL;
}

static void add_mirrored(void *to, const char *name, const char *value, size_t n)
{
        _cleanup_free_ char *encoded = http_header_encode(value, n);

        add_header(to, name, encoded);
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
        r->principal = m->principal;
        r->is_modern = m->is_modern;
        r->is_initialize = m->method && strcmp(m->method, "initialize") == 0;
        r->is_initialized = m->method && strcmp(m->method, "notifications/initialized") == 0;
        if (m->method && m->is_modern)
                find_headers(r, m);
        if (m->trace_parent)
                add_header(r, "traceparent", m->trace_parent);
        if (m->trace_state)
                add_header(r, "tracestate", m->trace_state);
        r->body = h->prepared;
        buffer_init(&h->prepared, HTTP_BODIES_MAX);
        r->body.length--; /* the newline */
        h->bytes += r->body.length;
        h->message_bytes += r->kind == HTTP_MESSAGE ? r->body.length : 0;
        if (r->is_initialize) {
                buffer_done(&h->initialize);
                buffer_init(&h->initialize, HTTP_BODIES_MAX);
                (void)buffer_append(&h->initialize, buffer_bytes(&r->body), r->body.length);
        }
        if (r->is_initialized)
                h->barrier = r;
        http_send_soon(h);
        return 0;
}

/* Without cloister-access the server cannot be used either. */
static bool has_input(const struct transport *t)
{
        struct transport *access = ((const struct http *)(const void *)t)->access;

        return access->kind->has_input(access);
}

static bool has_output(const struct transport *t)
{
        struct transport *access = ((const struct http *)(const void *)t)->access;

        return access->kind->has_output(access);
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

static struct http_request *find(struct http *h, int64_t id)
{
        struct http_request *r;

        TAILQ_FOREACH (r, &h->requests, link) {
                if (r->kind == HTTP_REQUEST && r->id == id)
                        return r;
        }
        return NULL;
}

static void answered(struct transport *t, int64_t id)
{
        struct http_request *r = find((void *)t, id);

        if (r)
                http_request_settle(r);
}

/* MCP 2026-07-28: the end of the response's stream is the cancellation. */
static bool cancel(struct transport *t, int64_t id, bool is_modern)
{
        struct http *h = (void *)t;
        struct http_request *r = find(h, id);
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
        .is_read = has_input, /* only matters if a process may end before it has read */
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
                .incoming = &incoming_host,
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
