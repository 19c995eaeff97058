/* The answers of cloister-access. */
#include "supervisor/hub/http/access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/mask.h"
#include "supervisor/hub/http/session.h"

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
