/* Requests to the proxy. */
#include "supervisor/egress/request.h"

#include <errno.h>
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
