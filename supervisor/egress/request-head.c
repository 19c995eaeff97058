/* Reads the head of a request to the proxy. */
#include "supervisor/egress/request-head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum { LENGTH_DIGITS_MAX = 18 };

struct text {
        const char *at;
        size_t n;
};

/* While a head is read. */
struct reading {
        struct request_head *head;
        struct buffer *forward;
        unsigned n_headers;
        bool is_old; /* HTTP/1.0 */
        bool has_host, has_length, has_encoding;
        enum egress_reason *why;
};

static int wrong(struct reading *r, enum egress_reason why)
{
        *r->why = why;
        return -EINVAL;
}

static bool is_token(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c && strchr("!#$%&'*+-.^_`|~", c));
}

static size_t token_length(struct text text)
{
        size_t n = 0;

        while (n < text.n && is_token(text.at[n]))
                n++;
        return n;
}

static bool is_word(struct text text, const char *word)
{
        return text.n == strlen(word) && strncasecmp(text.at, word, text.n) == 0;
}

/* Up to a blank or the end; moves on behind the blank. */
static struct text next_word(struct text *rest)
{
        const char *blank = memchr(rest->at, ' ', rest->n);
        struct text word = {rest->at, blank ? (size_t)(blank - rest->at) : rest->n};
        size_t used = word.n + (blank ? 1 : 0);

        rest->at += used;
        rest->n -= used;
        return word;
}

static bool is_visible(struct text text)
{
        for (size_t i = 0; i < text.n; i++)
                if (text.at[i] <= ' ' || text.at[i] > '~' || text.at[i] == '#' ||
                    text.at[i] == '\\')
                        return false;
        return true;
}

static int read_authority(struct reading *r, struct text text, uint16_t otherwise)
{
        struct request_head *head = r->head;

        head->has_host = network_authority_parse(text.at, text.n, otherwise, &head->host,
                                                 &head->port);
        return head->has_host ? 0 : wrong(r, EGRESS_MALFORMED);
}

/* "http://HOST[:PORT][/PATH][?QUERY]": writes the request line for the server. */
static int read_uri(struct reading *r, struct text method, struct text uri)
{
        static const char scheme[] = "http://";
        size_t n = sizeof(scheme) - 1, length = 0;

        if (uri.n < n || strncasecmp(uri.at, scheme, n) != 0 || !is_visible(uri))
                return wrong(r, EGRESS_MALFORMED);
        struct text rest = {uri.at + n, uri.n - n};
        while (length < rest.n && rest.at[length] != '/' && rest.at[length] != '?')
                length++;
        int e = read_authority(r, (struct text){rest.at, length}, NETWORK_PORT_HTTP);
        if (e < 0)
                return e;
        rest.at += length;
        rest.n -= length;
        e = buffer_append(r->forward, method.at, method.n);
        if (e >= 0)
                e = buffer_append_text(r->forward, rest.n && rest.at[0] == '/' ? " " : " /");
        if (e >= 0)
                e = buffer_append(r->forward, rest.at, rest.n);
        return e < 0 ? e : buffer_append_text(r->forward, " HTTP/1.1\r\n");
}

static int read_first_line(struct reading *r, struct text line)
{
        struct text method = next_word(&line), target = next_word(&line);

        if (method.n == 0 || token_length(method) != method.n || target.n == 0)
                return wrong(r, EGRESS_MALFORMED);
        r->is_old = is_word(line, "HTTP/1.0");
        if (!r->is_old && !is_word(line, "HTTP/1.1"))
                return wrong(r, EGRESS_MALFORMED);
        r->head->is_connect = method.n == 7 && memcmp(method.at, "CONNECT", 7) == 0;
        return r->head->is_connect ? read_authority(r, target, 0) : read_uri(r, method, target);
}

/* Headers that are between the client and the proxy (RFC 9110, 7.6.1), and those that we write. */
static bool is_ours(struct text name)
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
                if (is_word(name, names[i]))
                        return true;
        return false;
}

static int read_host(struct reading *r, struct text value)
{
        struct network_host host;
        uint16_t port, otherwise = r->head->is_connect ? r->head->port : NETWORK_PORT_HTTP;

        if (r->has_host)
                return wrong(r, EGRESS_MALFORMED);
        r->has_host = true;
        if (!network_authority_parse(value.at, value.n, otherwise, &host, &port))
                return wrong(r, EGRESS_MALFORMED);
        return network_host_equal(&host, &r->head->host) && port == r->head->port
                       ? 0
                       : wrong(r, EGRESS_OTHER_NAME);
}

static int read_length(struct reading *r, struct text value)
{
        uint64_t length = 0;

        if (r->has_length || value.n == 0 || value.n > LENGTH_DIGITS_MAX)
                return wrong(r, EGRESS_MALFORMED);
        r->has_length = true;
        for (size_t i = 0; i < value.n; i++) {
                if (value.at[i] < '0' || value.at[i] > '9')
                        return wrong(r, EGRESS_MALFORMED);
                length = length * 10 + (uint64_t)(value.at[i] - '0');
        }
        r->head->body.left = length;
        return 0;
}

static int read_encoding(struct reading *r, struct text value)
{
        if (r->has_encoding || !is_word(value, "chunked") || r->is_old)
                return wrong(r, EGRESS_MALFORMED);
        r->has_encoding = true;
        r->head->body.kind = REQUEST_BODY_CHUNKED;
        return 0;
}

static struct text trimmed(struct text text)
{
        while (text.n > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
                text.at++;
                text.n--;
        }
        while (text.n > 0 && (text.at[text.n - 1] == ' ' || text.at[text.n - 1] == '\t'))
                text.n--;
        return text;
}

static bool is_clean(struct text value)
{
        for (size_t i = 0; i < value.n; i++) {
                unsigned char c = (unsigned char)value.at[i];
                if ((c < ' ' && c != '\t') || c == 0x7f)
                        return false;
        }
        return true;
}

static int read_header(struct reading *r, struct text line)
{
        struct text name = {line.at, token_length(line)};
        int e = 0;

        if (name.n == 0 || name.n == line.n || line.at[name.n] != ':' || !is_clean(line) ||
            ++r->n_headers > REQUEST_HEADERS_MAX)
                return wrong(r, EGRESS_MALFORMED);
        struct text value = trimmed((struct text){line.at + name.n + 1, line.n - name.n - 1});
        if (is_word(name, "host"))
                e = read_host(r, value);
        else if (is_word(name, "content-length"))
                e = read_length(r, value);
        else if (is_word(name, "transfer-encoding"))
                e = read_encoding(r, value);
        if (e < 0 || r->head->is_connect || is_ours(name))
                return e;
        e = buffer_append(r->forward, line.at, line.n);
        return e < 0 ? e : buffer_append_text(r->forward, "\r\n");
}

static int write_host(struct reading *r)
{
        const struct request_head *head = r->head;
        bool is_v6 = head->host.kind == NETWORK_V6;

        int e = buffer_printf(r->forward, "Host: %s%s%s", is_v6 ? "[" : "", head->host.text,
                              is_v6 ? "]" : "");
        if (e >= 0 && head->port != NETWORK_PORT_HTTP)
                e = buffer_printf(r->forward, ":%u", head->port);
        return e < 0 ? e : buffer_append_text(r->forward, "\r\n");
}

static int finish(struct reading *r)
{
        if (r->has_length && r->has_encoding)
                return wrong(r, EGRESS_MALFORMED);
        if (r->head->is_connect) {
                r->head->body = (struct request_body){};
                return r->has_length || r->has_encoding ? wrong(r, EGRESS_MALFORMED) : 0;
        }
        if (!r->has_host && !r->is_old)
                return wrong(r, EGRESS_MALFORMED);
        return buffer_append_text(r->forward, "Connection: close\r\n\r\n");
}

static int read_lines(struct reading *r, const char *data, size_t n)
{
        bool is_first = true;
        int e = 0;

        while (n > 0 && e >= 0) {
                const char *end = memchr(data, '\n', n);
                size_t length = (size_t)(end - data); /* the head ends with one */
                if (length == 0 || data[length - 1] != '\r')
                        return wrong(r, EGRESS_MALFORMED);
                struct text line = {data, length - 1};
                n -= length + 1;
                data += length + 1;
                if (line.n == 0)
                        break;
                e = is_first ? read_first_line(r, line) : read_header(r, line);
                if (is_first && e >= 0 && !r->head->is_connect)
                        e = write_host(r);
                is_first = false;
        }
        return e < 0 ? e : is_first ? wrong(r, EGRESS_MALFORMED) : finish(r);
}

int request_head_parse(const char *data, size_t n, struct request_head *ret, struct buffer *forward,
                       enum egress_reason *why)
{
        const char *end = memmem(data, n, "\r\n\r\n", 4);
        struct reading r = {.head = ret, .forward = forward, .why = why};

        *ret = (struct request_head){};
        *why = EGRESS_MALFORMED;
        size_t most = n < REQUEST_HEAD_MAX ? n : REQUEST_HEAD_MAX;
        if (!end && (n >= REQUEST_HEAD_MAX || memmem(data, most, "\n\n", 2)))
                return -EINVAL;
        if (!end)
                return 0;
        ret->size = (size_t)(end - data) + 4;
        if (ret->size > REQUEST_HEAD_MAX)
                return -EINVAL;
        int e = read_lines(&r, data, ret->size);
        return e < 0 ? e : 1;
}
