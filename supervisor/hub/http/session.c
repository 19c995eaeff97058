/* Sessions, the stream of what the server says by itself, and HTTP+SSE. */
#include "supervisor/hub/http/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/mask.h"
#include "rpc/jsonrpc.h"
#include "supervisor/hub/http/queue.h"

/* ---- the stream ---- */

static void http_listen(struct http *h)
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

/* ---- the answers of cloister-access ---- */

static const char *name(void *data)
{
        struct http *h = data;

        return h->host->name(h->data);
}

static bool is_one_line(const char *text)
{
        for (; *text; text++) {
                if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
                        return false;
        }
        return true;
}

/* Returns what is wrong with the entry, or NULL. */
static const char *entry_fault(yyjson_val *entry)
{
        yyjson_val *headers = yyjson_obj_get(entry, "headers"), *header;
        const char *url = json_string(entry, "url", NULL);
        size_t i, n;

        _cleanup_free_ char *origin = url ? exchange_origin(url) : NULL;
        if (!origin || (strncmp(origin, "http://", 7) != 0 && strncmp(origin, "https://", 8) != 0))
                return "its url is not a valid http or https url";
        yyjson_arr_foreach (headers, i, n, header) {
                if (!yyjson_is_str(header) || !is_one_line(yyjson_get_str(header)))
                        return "a value of its headers is more than one line";
        }
        return NULL;
}

static int take_token(struct http *h, yyjson_val *answer)
{
        const char *token = json_string(answer, "token", NULL);

        if (!token)
                return 0;
        mask_add(token);
        mask_drop(h->token_before);
        free(h->token_before);
        h->token_before = h->token;
        h->token = strdup(token);
        h->token_number++;
        return h->token ? 0 : -ENOMEM;
}

static void mask_headers(yyjson_val *headers)
{
        yyjson_val *header;
        size_t i, n;

        yyjson_arr_foreach (headers, i, n, header) {
                const char *value = yyjson_get_str(header) + strcspn(yyjson_get_str(header), ":");
                if (*value)
                        mask_add(value + 2);
        }
}

/* The first answer: the url is known now. */
static void begin(struct http *h, yyjson_doc *doc)
{
        yyjson_val *entry = yyjson_doc_get_root(doc);
        const char *fault = entry_fault(entry);

        h->entry = doc;
        if (fault) {
                http_fail(h, "%s", fault);
                return;
        }
        h->url = strdup(json_string(entry, "url", NULL));
        if (!h->url || take_token(h, entry) < 0) {
                http_fail(h, "needs more memory than there is");
                return;
        }
        mask_headers(yyjson_obj_get(entry, "headers"));
        h->mode = h->is_sse ? HTTP_SSE_OPENING : HTTP_STREAMABLE;
        if (h->is_sse)
                http_listen(h);
        http_send_soon(h);
}

static struct http_request *waiting_for_token(struct http *h)
{
        struct http_request *r;

        TAILQ_FOREACH (r, &h->requests, link) {
                if (r->state == HTTP_WAITS_TOKEN)
                        return r;
        }
        return NULL;
}

static void retry_with_token(struct http *h)
{
        struct http_request *r;

        while ((r = waiting_for_token(h))) {
                r->had_token = true;
                http_request_requeue(r);
        }
}

/* There is no other token. Before the server has been of use, all ends. */
static void refuse_all(struct http *h, const char *why)
{
        struct http_request *r;

        while (h->is_open && (r = waiting_for_token(h))) {
                if (!h->version || r->kind == HTTP_REOPEN)
                        http_fail(h, "%s", why);
                else if (r->kind == HTTP_LISTEN)
                        http_request_free(r);
                else
                        http_request_fail(r, "%s", why);
        }
}

static bool on_line(void *data, const char *line, size_t n)
{
        yyjson_doc *doc = NULL;
        struct http *h = data;
        struct error err = {};

        if (json_parse(line, n, &doc, &err) < 0)
                return false;
        yyjson_val *answer = yyjson_doc_get_root(doc);
        const char *why = json_string(answer, "error", NULL);
        if (h->mode == HTTP_ASKS_ACCESS && !why) {
                begin(h, doc);
                return true;
        }
        if (yyjson_is_true(yyjson_obj_get(answer, "renewed"))) {
                int r = h->mode == HTTP_ASKS_ACCESS ? -EINVAL : take_token(h, answer);
                yyjson_doc_free(doc);
                return r >= 0;
        }
        bool awaited = h->asks_token;
        h->asks_token = false;
        if (h->mode == HTTP_ASKS_ACCESS)
                http_fail(h, "%s", why);
        else if (awaited && !why && take_token(h, answer) >= 0)
                retry_with_token(h);
        else if (awaited)
                refuse_all(h, why ? why : "needs more memory than there is");
        yyjson_doc_free(doc);
        return awaited;
}

static int ask_access(const struct http_request *r, int status, const char *challenge)
{
        const struct outgoing m = {.kind = OUTGOING_NOTIFICATION};
        struct transport *access = r->http->access;
        struct buffer *to;

        int e = access->kind->prepare(access, 0, &to);
        if (e < 0)
                return e;
        struct json_out out = {.to = to};
        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "status", status);
        json_out_text(&out, "challenge", challenge);
        json_out_int(&out, "tokens", r->token_number);
        json_out_end(&out, '}');
        e = out.error < 0 ? out.error : buffer_append_text(to, "\n");
        if (e >= 0)
                return access->kind->commit(access, &m);
        access->kind->abandon(access);
        return e;
}

void http_ask_token(struct http_request *r, int status, const char *challenge)
{
        struct http *h = r->http;
        int e = h->asks_token ? 0 : ask_access(r, status, challenge);

        r->state = HTTP_WAITS_TOKEN;
        /* The challenge is part of it. */
        r->exchange = exchange_free(r->exchange);
        h->asks_token = e >= 0;
        if (e < 0)
                refuse_all(h, "refuses the token, and cloister-access cannot be asked for another");
}

static bool on_parsed(void *data, struct large_line *line)
{
        return false;
}

static void on_part(void *data, const char *line, size_t n)
{
}

/* Its exit is reported by the monitor. */
static void on_cut(void *data)
{
        struct http *h = data;

        h->host->cut(h->data);
}

static void on_no_memory(void *data)
{
        struct http *h = data;

        h->host->no_memory(h->data);
}

const struct connection_host http_access_host = {
        .name = name,
        .line = on_line,
        .parsed = on_parsed,
        .late = on_part,
        .oversized = on_part,
        .cut = on_cut,
        .no_memory = on_no_memory,
};
