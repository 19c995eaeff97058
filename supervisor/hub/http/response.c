/* Sends a request, and handles its response or refusal. */
#include "supervisor/hub/http/response.h"

#include <string.h>

#include "base/json-out.h"
#include "rpc/jsonrpc.h"
#include "supervisor/hub/http/access.h"
#include "supervisor/hub/http/headers.h"
#include "supervisor/hub/http/session.h"

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
        const struct exchange_head *head = exchange_head(r->exchange);
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

const struct incoming_host http_incoming_host = {
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
        const struct exchange_head *head = exchange_head(r->exchange);
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
        if (!is_success(exchange_head(r->exchange)))
                (void)buffer_append(&r->refusal, bytes, n);
        return n;
}

static void on_end(void *data, const char *why)
{
        struct http_request *r = data;
        const struct exchange_head *head = exchange_head(r->exchange);

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

void http_request_send(struct http_request *r)
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
