/* Requests as servers get them. */
#include "supervisor/inject/forward.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "policy/network-rules.h"

/* Between the client and us (RFC 9110, 7.6.1), and those that we write. With Range, a host would return a value in pieces. */
static const char *const ours[] = {
        "host",    "connection",      "proxy-connection",    "keep-alive",
        "te",      "trailer",         "transfer-encoding",   "content-length",
        "upgrade", "http2-settings",  "proxy-authorization", "expect",
        "range",   "accept-encoding",
};

int forward_check(const struct inject_host *host, const struct http_reader *reader,
                  struct error *err)
{
        const char *value = http_request_header(reader, "host");
        struct network_host named;
        uint16_t port;

        if (!value ||
            !network_authority_parse(value, strlen(value), NETWORK_PORT_TLS, &named, &port))
                return error_set(err, EACCES, "got a request with a Host that is not valid");
        if (named.kind != NETWORK_NAME || strcmp(named.text, host->name) != 0 || port != host->port)
                return error_set(err, EACCES, "got a request whose Host is another one");
        return 0;
}

static bool is_ours(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
                if (strcasecmp(name, ours[i]) == 0)
                        return true;
        return false;
}

static int append_target(const struct placeholder_use *use, const struct http_reader *reader,
                         struct buffer *to, struct error *err)
{
        const struct http_request *request = &reader->request;
        struct placeholder_use in_query = *use, in_path = *use;

        in_query.place = INJECT_QUERY;
        in_query.encoding = ENCODE_PERCENT;
        in_path.place = INJECT_ELSEWHERE;
        int r = buffer_printf(to, "%s ", http_request_method(reader));
        if (r >= 0)
                r = placeholders_replace(&in_path, request->path, strlen(request->path), to, err);
        if (r >= 0 && request->query) {
                r = buffer_append(to, "?", 1);
                if (r >= 0)
                        r = placeholders_replace(&in_query, request->query, strlen(request->query),
                                                 to, err);
        }
        return r < 0 ? r : buffer_append_text(to, " HTTP/1.1\r\n");
}

static int append_headers(const struct placeholder_use *use, const struct inject_host *host,
                          const struct http_reader *reader, struct buffer *to, struct error *err)
{
        const char *name, *value;
        struct buffer none = BUFFER_INIT(HTTP_HEAD_MAX);

        int r = buffer_printf(to, "Host: %s", host->name);
        if (r >= 0 && host->port != NETWORK_PORT_TLS)
                r = buffer_printf(to, ":%u", host->port);
        if (r >= 0)
                r = buffer_append_text(to, "\r\nAccept-Encoding: identity\r\n");
        for (size_t i = 0; r >= 0 && http_request_each(reader, i, &name, &value); i++) {
                struct placeholder_use in_name = *use;
                in_name.place = INJECT_ELSEWHERE;
                r = placeholders_replace(&in_name, name, strlen(name), &none, err);
                buffer_consume(&none, none.length);
                if (r < 0 || is_ours(name))
                        continue;
                r = buffer_printf(to, "%s: ", name);
                if (r >= 0)
                        r = placeholders_replace_header(use, name, value, to, err);
                if (r >= 0)
                        r = buffer_append(to, "\r\n", 2);
        }
        buffer_done(&none);
        return r;
}

static enum placeholder_encoding encoding_of(const struct http_reader *reader)
{
        const char *type = http_request_header(reader, "content-type");

        if (type && (strcasestr(type, "/json") || strcasestr(type, "+json")))
                return ENCODE_JSON;
        return type && strcasestr(type, "x-www-form-urlencoded") ? ENCODE_PERCENT : ENCODE_NOT;
}

static void clear(struct buffer *b)
{
        if (b->length > 0)
                explicit_bzero(buffer_bytes(b), b->length);
        buffer_done(b);
}

static int append_body(const struct placeholder_use *use, const struct http_reader *reader,
                       struct buffer *to, struct error *err)
{
        struct buffer text = BUFFER_INIT(FORWARD_MAX);
        const struct buffer *body = &reader->request.body;
        struct placeholder_use in_body = *use;

        in_body.place = INJECT_BODY;
        in_body.encoding = encoding_of(reader);
        int r = placeholders_replace(&in_body, buffer_bytes(body), body->length, &text, err);
        if (r >= 0)
                r = buffer_printf(to, "Content-Length: %zu\r\n\r\n", text.length);
        if (r >= 0)
                r = buffer_append(to, buffer_bytes(&text), text.length);
        clear(&text);
        return r;
}

/* ---- a body that is passed on while it arrives ---- */

enum {
        KEPT = INJECT_PLACEHOLDER_SIZE - 2, /* the longest placeholder without its last byte */
        HELD_MAX = 128 * 1024,
};

bool forward_streams(const struct inject_settings *settings, size_t host)
{
        for (size_t i = 0; i < settings->n_secrets; i++)
                if (settings->secrets[i].places & INJECT_BODY &&
                    settings->secrets[i].hosts & UINT32_C(1) << host)
                        return false;
        return true;
}

static int begin_stream(const struct http_reader *reader, struct forward_stream *stream,
                        struct buffer *to)
{
        const char *length = http_request_header(reader, "content-length");

        *stream = (struct forward_stream){.is_chunked = !length, .held = BUFFER_INIT(HELD_MAX)};
        /* Servers need not read zeros before the number as this parser does. */
        return length ? buffer_printf(to, "Content-Length: %llu\r\n\r\n",
                                      strtoull(length, NULL, 10))
                      : buffer_append_text(to, "Transfer-Encoding: chunked\r\n\r\n");
}

static int append_piece(struct forward_stream *stream, size_t n, struct buffer *to)
{
        int r = stream->is_chunked ? buffer_printf(to, "%zx\r\n", n) : 0;

        if (r >= 0)
                r = buffer_append(to, buffer_bytes(&stream->held), n);
        if (r >= 0 && stream->is_chunked)
                r = buffer_append(to, "\r\n", 2);
        buffer_consume(&stream->held, n);
        return r;
}

int forward_more(const struct inject_session *session, size_t host, struct http_reader *reader,
                 struct forward_stream *stream, struct buffer *to, struct error *err)
{
        const struct placeholder_use use = {.all = &session->inject->placeholders,
                                            .session = session,
                                            .host = host,
                                            .place = INJECT_BODY};
        struct buffer *body = &reader->request.body, found = BUFFER_INIT(HELD_MAX);
        bool is_last = reader->state == HTTP_READER_DONE;

        int r = buffer_append(&stream->held, buffer_bytes(body), body->length);
        buffer_consume(body, body->length);
        /* No place in this body may have a placeholder: one that is found is an error, also one whose value would be put in. */
        if (r >= 0)
                r = placeholders_replace(&use, buffer_bytes(&stream->held), stream->held.length,
                                         &found, err);
        clear(&found);
        if (r > 0)
                r = error_set(err, EACCES, "got a placeholder in a body that is not read whole");
        size_t kept = is_last ? 0 : KEPT;
        if (r >= 0 && stream->held.length > kept)
                r = append_piece(stream, stream->held.length - kept, to);
        if (r >= 0 && is_last && stream->is_chunked)
                r = buffer_append_text(to, "0\r\n\r\n");
        return r < 0 ? r : 0;
}

int forward_append(const struct inject_session *session, size_t host,
                   const struct http_reader *reader, struct forward_stream *stream,
                   struct buffer *to, struct error *err)
{
        const struct inject *inject = session->inject;
        const struct placeholder_use use = {.all = &inject->placeholders,
                                            .session = session,
                                            .host = host,
                                            .place = INJECT_HEADERS};
        bool has_body = reader->request.body.length > 0 ||
                        http_request_header(reader, "content-length") ||
                        http_request_header(reader, "transfer-encoding");

        int r = append_target(&use, reader, to, err);
        if (r >= 0)
                r = append_headers(&use, &inject->settings->hosts[host], reader, to, err);
        if (r >= 0)
                r = stream     ? begin_stream(reader, stream, to)
                    : has_body ? append_body(&use, reader, to, err)
                               : buffer_append(to, "\r\n", 2);
        return r < 0 ? r : 0;
}
