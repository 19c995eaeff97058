/* Responses, by llhttp. */
#include "supervisor/inject/response.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* Headers that are between two peers (RFC 9110, 7.6.1), that we write, and that lead to another protocol. */
static const char *const dropped[] = {
        "connection",        "proxy-connection", "keep-alive",     "te",      "trailer",
        "transfer-encoding", "upgrade",          "content-length", "alt-svc", "proxy-authenticate",
};

enum { SWITCHING = 101, NO_CONTENT = 204, NOT_MODIFIED = 304, FIRST_FINAL = 200 };

enum { BODY_MAX = 16 * 1024 * 1024 /* of a chunk: values become longer */ };

static struct response *response_of(llhttp_t *parser)
{
        return parser->data;
}

static int refuse(struct response *r, const char *why)
{
        if (!r->why)
                r->why = why;
        return HPE_USER;
}

static int add(struct response *r, const char *text, size_t n)
{
        return buffer_append(&r->head, text, n) < 0 ? refuse(r, "sent a head that is too large")
                                                    : 0;
}

static int on_begin(llhttp_t *parser)
{
        struct response *r = response_of(parser);

        if (r->is_done)
                return refuse(r, "sent bytes behind its response");
        buffer_consume(&r->head, r->head.length);
        r->n_headers = 0;
        return add(r, "HTTP/1.1 ", strlen("HTTP/1.1 "));
}

static int on_status(llhttp_t *parser, const char *at, size_t n)
{
        struct response *r = response_of(parser);
        char code[16];

        if (r->head.length > strlen("HTTP/1.1 "))
                return add(r, at, n);
        snprintf(code, sizeof(code), "%03u ", llhttp_get_status_code(parser) % 1000U);
        return add(r, code, strlen(code)) || add(r, at, n);
}

static int on_status_complete(llhttp_t *parser)
{
        struct response *r = response_of(parser);

        /* The status line has no reason. */
        return (r->head.length == strlen("HTTP/1.1 ") && on_status(parser, "", 0)) ||
               add(r, "\r\n", 2);
}

static int on_name(llhttp_t *parser, const char *at, size_t n)
{
        struct response *r = response_of(parser);

        if (r->has_head)
                return 0; /* a trailer */
        if (r->line == 0) {
                if (++r->n_headers > RESPONSE_HEADERS_MAX)
                        return refuse(r, "sent too many headers");
                r->line = r->head.length;
        }
        return add(r, at, n);
}

static int on_name_complete(llhttp_t *parser)
{
        struct response *r = response_of(parser);

        if (r->has_head)
                return 0;
        r->name_end = r->head.length;
        return add(r, ": ", 2);
}

static int on_value(llhttp_t *parser, const char *at, size_t n)
{
        struct response *r = response_of(parser);

        if (r->has_head)
                return 0;
        for (size_t i = 0; i < n; i++)
                if ((unsigned char)at[i] < ' ' && at[i] != '\t')
                        return refuse(r, "sent a control character in a header");
        return add(r, at, n);
}

static bool is_name(const struct response *r, const char *name)
{
        const char *text = buffer_bytes(&r->head) + r->line;

        return strlen(name) == r->name_end - r->line && strncasecmp(text, name, strlen(name)) == 0;
}

static int on_value_complete(llhttp_t *parser)
{
        struct response *r = response_of(parser);

        if (r->has_head)
                return 0;
        const char *value = buffer_bytes(&r->head) + r->name_end + 2;
        size_t n = r->head.length - r->name_end - 2;
        if (is_name(r, "content-encoding") && n > 0 &&
            (n != strlen("identity") || strncasecmp(value, "identity", n) != 0))
                return refuse(r, "sent a compressed response although none was requested");
        /* Another coding would hide what the body contains. */
        if (is_name(r, "transfer-encoding") &&
            (n != strlen("chunked") || strncasecmp(value, "chunked", n) != 0))
                return refuse(r, "sent a transfer coding other than chunked");
        bool drops = false;
        for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
                drops |= is_name(r, dropped[i]) && !(r->is_head && is_name(r, "content-length"));
        if (drops)
                r->head.length = r->line;
        r->line = 0;
        return drops ? 0 : add(r, "\r\n", 2);
}

static bool body_follows(const struct response *r, int status)
{
        return !r->is_head && status != NO_CONTENT && status != NOT_MODIFIED;
}

/* The length may change by the mask: the body is sent in chunks, or until the end for HTTP/1.0. */
static int write_head(llhttp_t *parser)
{
        struct response *r = response_of(parser);
        bool is_empty = r->has_body && parser->flags & F_CONTENT_LENGTH &&
                        parser->content_length == 0;

        r->is_chunked = r->has_body && !r->is_old && !is_empty;
        r->keeps_alive = llhttp_should_keep_alive(parser) && !r->is_old;
        int e = mask_stream_feed(r->mask, buffer_bytes(&r->head), r->head.length, r->to);
        if (e >= 0)
                e = mask_stream_finish(r->mask, r->to);
        if (e >= 0)
                e = buffer_printf(r->to, "%s%s%s\r\n",
                                  r->is_chunked ? "Transfer-Encoding: chunked\r\n" : "",
                                  is_empty ? "Content-Length: 0\r\n" : "",
                                  r->keeps_alive ? "" : "Connection: close\r\n");
        r->has_head = e >= 0;
        return e < 0 ? refuse(r, "sent a head that is too large") : 0;
}

static int on_headers_complete(llhttp_t *parser)
{
        struct response *r = response_of(parser);
        int status = llhttp_get_status_code(parser);

        if (status == SWITCHING || llhttp_get_upgrade(parser))
                return refuse(r, "switched to another protocol");
        r->is_interim = status < FIRST_FINAL;
        if (r->is_interim)
                return 0;
        r->status = (unsigned)status;
        r->has_body = body_follows(r, status);
        int e = write_head(parser);
        return e ? e : r->has_body ? 0 : 1; /* 1: there is no body */
}

static int put_chunk(struct response *r)
{
        struct buffer *body = &r->body;

        if (body->length == 0)
                return 0;
        int e = r->is_chunked ? buffer_printf(r->to, "%zx\r\n", body->length) : 0;
        if (e >= 0)
                e = buffer_append(r->to, buffer_bytes(body), body->length);
        if (e >= 0 && r->is_chunked)
                e = buffer_append(r->to, "\r\n", 2);
        buffer_consume(body, body->length);
        return e;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
        struct response *r = response_of(parser);

        return mask_stream_feed(r->mask, at, n, &r->body) < 0
                       ? refuse(r, "sent more than could be kept")
                       : 0;
}

static int on_complete(llhttp_t *parser)
{
        struct response *r = response_of(parser);

        if (r->is_interim)
                return 0;
        r->is_done = true;
        if (mask_stream_finish(r->mask, &r->body) < 0 || put_chunk(r) < 0 ||
            (r->is_chunked && buffer_append_text(r->to, "0\r\n\r\n") < 0))
                return refuse(r, "sent more than could be kept");
        return 0;
}

static const llhttp_settings_t settings = {
        .on_message_begin = on_begin,
        .on_status = on_status,
        .on_status_complete = on_status_complete,
        .on_header_field = on_name,
        .on_header_field_complete = on_name_complete,
        .on_header_value = on_value,
        .on_header_value_complete = on_value_complete,
        .on_headers_complete = on_headers_complete,
        .on_body = on_body,
        .on_message_complete = on_complete,
};

void response_init(struct response *r, struct mask_stream *mask, struct buffer *to, bool is_head,
                   bool is_old)
{
        *r = (struct response){.mask = mask, .to = to, .is_head = is_head, .is_old = is_old};
        buffer_init(&r->head, RESPONSE_HEAD_MAX);
        buffer_init(&r->body, BODY_MAX);
        llhttp_init(&r->parser, HTTP_RESPONSE, &settings);
        r->parser.data = r;
}

void response_done(struct response *r)
{
        r->mask = mask_stream_free(r->mask);
        buffer_done(&r->head);
        buffer_done(&r->body);
}

int response_feed(struct response *r, const char *data, size_t n)
{
        if (n == 0)
                return 0;
        r->began = true;
        r->bytes += n;
        if (r->is_done)
                refuse(r, "sent bytes behind its response");
        else if (llhttp_execute(&r->parser, data, n) != HPE_OK)
                refuse(r, "sent a response that is not valid HTTP/1.1");
        return r->why ? -EBADMSG : 0;
}

int response_flush(struct response *r)
{
        if (put_chunk(r) < 0)
                refuse(r, "sent more than could be kept");
        return r->why ? -EBADMSG : 0;
}

int response_end(struct response *r)
{
        if (!r->is_done && llhttp_finish(&r->parser) != HPE_OK)
                refuse(r, "ended the connection before its response was complete");
        if (!r->is_done)
                refuse(r, "ended the connection without a response");
        return r->why ? -EBADMSG : 0;
}
