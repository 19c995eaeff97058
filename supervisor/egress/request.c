/* Requests to the proxy, and the ClientHello behind CONNECT. */
#include "supervisor/egress/request.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

static const char scheme[] = "http://";

static bool is_visible(const char *uri)
{
        for (const char *c = uri; *c; c++)
                if (*c <= ' ' || *c > '~' || *c == '#' || *c == '\\')
                        return false;
        return true;
}

/* Of "http://HOST[:PORT][/PATH][?QUERY]": what is behind the authority. */
static const char *path_of(const char *uri)
{
        const char *authority = uri + strlen(scheme);

        return authority + strcspn(authority, "/?");
}

static bool read_target(struct request *r, const char *target)
{
        const char *authority = target, *end = target + strlen(target);
        uint16_t port = 0;

        if (!r->is_connect) {
                if (strncasecmp(target, scheme, strlen(scheme)) != 0 || !is_visible(target))
                        return false;
                authority += strlen(scheme);
                end = path_of(target);
                port = NETWORK_PORT_HTTP;
        }
        r->has_host = network_authority_parse(authority, (size_t)(end - authority), port, &r->host,
                                              &r->port);
        return r->has_host;
}

/* Whether the header Host has another host than the target, or none. */
static enum egress_reason check_host(const struct http_reader *reader, const struct request *r)
{
        const char *value = http_request_header(reader, "host");
        uint16_t port, otherwise = r->is_connect ? r->port : NETWORK_PORT_HTTP;
        struct network_host host;

        if (!value)
                return EGRESS_FINE;
        if (!network_authority_parse(value, strlen(value), otherwise, &host, &port))
                return EGRESS_MALFORMED;
        return network_host_equal(&host, &r->host) && port == r->port ? EGRESS_FINE
                                                                      : EGRESS_OTHER_NAME;
}

ssize_t request_feed(struct http_reader *reader, const char *data, size_t n, struct request *ret,
                     enum egress_reason *why)
{
        struct error ignored = {};
        ssize_t used = http_reader_feed(reader, data, n, &ignored);
        const char *target = http_request_target(reader);

        *ret = (struct request){.is_connect = strcmp(http_request_method(reader), "CONNECT") == 0};
        *why = target && !read_target(ret, target) ? EGRESS_MALFORMED : EGRESS_FINE;
        if (used < 0)
                *why = EGRESS_MALFORMED;
        else if (*why == EGRESS_FINE && reader->state == HTTP_READER_HEADERS)
                *why = check_host(reader, ret);
        return *why == EGRESS_FINE ? used : -EINVAL;
}

/* Headers that are between the client and the proxy (RFC 9110, 7.6.1), and those that we write. */
static bool is_ours(const char *name)
{
        static const char *const names[] = {
                "host",
                "connection",
                "proxy-connection",
                "keep-alive",
                "te",
                "proxy-authorization",
                "proxy-authenticate",
                "upgrade",
                "http2-settings",
                "trailer",
        };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcasecmp(name, names[i]) == 0)
                        return true;
        return false;
}

int request_append_forward(const struct http_reader *reader, const struct request *request,
                           struct buffer *to)
{
        const char *path = path_of(http_request_target(reader)), *name, *value;
        bool is_v6 = request->host.kind == NETWORK_V6;

        int r = buffer_printf(to, "%s %s%s HTTP/1.1\r\nHost: %s%s%s", http_request_method(reader),
                              *path == '/' ? "" : "/", path, is_v6 ? "[" : "", request->host.text,
                              is_v6 ? "]" : "");
        if (r >= 0 && request->port != NETWORK_PORT_HTTP)
                r = buffer_printf(to, ":%u", request->port);
        for (size_t i = 0; r >= 0 && http_request_each(reader, i, &name, &value); i++)
                if (!is_ours(name))
                        r = buffer_printf(to, "\r\n%s: %s", name, value);
        return r < 0 ? r : buffer_append_text(to, "\r\nConnection: close\r\n\r\n");
}

/* ---- the ClientHello ---- */

enum {
        RECORD_HEADER = 5,
        RECORD_MAX = 16384, /* RFC 8446, 5.1 */
        MESSAGE_HEADER = 4,
        CLIENT_HELLO = 1,
        EXTENSION_SERVER_NAME = 0,
        EXTENSION_ECH = 0xfe0d,
        HOST_NAME = 0,
        RANDOM = 32,
};

/* Bytes that are taken from the front. */
struct input {
        const unsigned char *at;
        size_t n;
        bool is_short; /* more was taken than there was */
};

static struct input take(struct input *from, size_t n)
{
        struct input part = {from->at, n, false};

        if (n > from->n || from->is_short) {
                from->is_short = true;
                return (struct input){from->at, 0, true};
        }
        from->at += n;
        from->n -= n;
        return part;
}

static size_t take_number(struct input *from, unsigned bytes)
{
        struct input part = take(from, bytes);
        size_t value = 0;

        for (size_t i = 0; i < part.n; i++)
                value = value << 8 | part.at[i];
        return value;
}

static struct input take_vector(struct input *from, unsigned length_bytes)
{
        size_t n = take_number(from, length_bytes);

        return take(from, n);
}

/*
 * Puts the handshake bytes of the records together. Returns the length of the message with its header when it is
 * complete, 0: more is needed, -EINVAL.
 */
static int join_records(const unsigned char *data, size_t n, unsigned char *to)
{
        size_t length = 0, wanted = MESSAGE_HEADER;

        while (n >= RECORD_HEADER) {
                size_t size = (size_t)data[3] << 8 | data[4];
                if (data[0] != TLS_HANDSHAKE || data[1] != 3 || size == 0 || size > RECORD_MAX)
                        return -EINVAL;
                size_t has = n - RECORD_HEADER < size ? n - RECORD_HEADER : size;
                if (length + has > CLIENT_HELLO_MAX)
                        return -EINVAL;
                memcpy(to + length, data + RECORD_HEADER, has);
                length += has;
                if (length >= MESSAGE_HEADER) {
                        if (to[0] != CLIENT_HELLO)
                                return -EINVAL;
                        wanted = MESSAGE_HEADER +
                                 ((size_t)to[1] << 16 | (size_t)to[2] << 8 | to[3]);
                }
                if (wanted > CLIENT_HELLO_MAX)
                        return -EINVAL;
                if (length >= wanted)
                        return (int)wanted;
                if (has < size)
                        return 0;
                data += RECORD_HEADER + size;
                n -= RECORD_HEADER + size;
        }
        return 0;
}

/* One name of type host_name, and no other. */
static bool is_server_name(struct input extension, const struct network_host *host)
{
        struct network_host named;
        struct input list = take_vector(&extension, 2);
        size_t type = take_number(&list, 1);
        struct input name = take_vector(&list, 2);

        return !extension.is_short && !list.is_short && extension.n == 0 && list.n == 0 &&
               type == HOST_NAME && network_host_parse((const char *)name.at, name.n, &named) &&
               network_host_equal(&named, host);
}

static int check_extensions(struct input all, const struct network_host *host,
                            enum egress_reason *why)
{
        bool has_name = false;

        while (all.n > 0) {
                size_t type = take_number(&all, 2);
                struct input extension = take_vector(&all, 2);
                if (all.is_short)
                        return -EINVAL;
                *why = EGRESS_NO_NAME;
                if (type == EXTENSION_ECH || (type == EXTENSION_SERVER_NAME && has_name))
                        return -EINVAL;
                if (type != EXTENSION_SERVER_NAME)
                        continue;
                *why = EGRESS_OTHER_NAME;
                if (host->kind != NETWORK_NAME || !is_server_name(extension, host))
                        return -EINVAL;
                has_name = true;
        }
        *why = EGRESS_NO_NAME;
        return has_name || host->kind != NETWORK_NAME ? 1 : -EINVAL;
}

int client_hello_check(const unsigned char *data, size_t n, const struct network_host *host,
                       enum egress_reason *why)
{
        unsigned char message[CLIENT_HELLO_MAX];

        *why = EGRESS_NOT_TLS;
        int length = join_records(data, n, message);
        if (length == 0 && n >= CLIENT_HELLO_MAX)
                return -EINVAL;
        if (length <= 0)
                return length;
        struct input hello = {message + MESSAGE_HEADER, (size_t)length - MESSAGE_HEADER, false};
        take(&hello, 2 + RANDOM);
        take_vector(&hello, 1); /* session id */
        take_vector(&hello, 2); /* cipher suites */
        take_vector(&hello, 1); /* compression */
        if (hello.n == 0 && !hello.is_short) {
                *why = EGRESS_NO_NAME;
                return host->kind == NETWORK_NAME ? -EINVAL : 1;
        }
        struct input extensions = take_vector(&hello, 2);
        if (hello.is_short || hello.n > 0)
                return -EINVAL;
        return check_extensions(extensions, host, why);
}
