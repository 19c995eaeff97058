/* The headers of a request. */
#include "supervisor/hub/http/headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"

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

/* The header has been since 2025-06-18. */
static bool wants_version(const char *version)
{
        return version && strcmp(version, "2025-06-18") >= 0;
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
        if (!begins && wants_version(h->version))
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
