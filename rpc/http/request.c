/* Requests, by llhttp. */
#include "rpc/http/request.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum {
        BAD_REQUEST = 400,
        CONTENT_TOO_LARGE = 413,
        URI_TOO_LONG = 414,
        EXPECTATION_FAILED = 417,
        FIELDS_TOO_LARGE = 431,
        NOT_IMPLEMENTED = 501,
        VERSION_NOT_SUPPORTED = 505,
        RESERVE_MIN = 64 * 1024,
        TEXTS_MAX = 2 * HTTP_HEAD_MAX + 3 * HTTP_HEADERS_MAX,
        SIZE_DIGITS_MAX = 15,
        LENGTH_DIGITS_MAX = 18,
};

/* Headers of which a request has one at most, because their value decides what is done. */
static const char *const single[] = {
        "host",           "content-length",       "transfer-encoding", /* also for a proxy */
        "content-type",   "authorization",        "origin",
        "mcp-session-id", "mcp-protocol-version", "mcp-method",
        "mcp-name",       "last-event-id",        "expect",
        "upgrade",        "mcp-param-session",
};

static struct http_reader *reader_of(llhttp_t *parser)
{
        return parser->data;
}

static int refuse(struct http_reader *reader, int status, const char *why)
{
        if (reader->state != HTTP_READER_REFUSED) {
                reader->state = HTTP_READER_REFUSED;
                reader->status = status;
                reader->why = why;
        }
        return HPE_USER;
}

static int add_text(struct http_reader *reader, const char *at, size_t n)
{
        return buffer_append(&reader->head, at, n) < 0
                       ? refuse(reader, FIELDS_TOO_LARGE, "the head is too large")
                       : 0;
}

static int end_text(llhttp_t *parser)
{
        return add_text(reader_of(parser), "", 1);
}

static int on_target_complete(llhttp_t *parser)
{
        reader_of(parser)->has_target = true;
        return end_text(parser);
}

/* Of a byte of the head. */
static size_t offset_of(const struct http_reader *reader, const char *at)
{
        return reader->before + (size_t)(at - reader->piece);
}

static int on_method(llhttp_t *parser, const char *at, size_t n)
{
        struct http_reader *reader = reader_of(parser);

        if (reader->is_proxy && reader->part_end == 0 && offset_of(reader, at) != 0)
                return refuse(reader, BAD_REQUEST, "an empty line before the request");
        reader->part_end = offset_of(reader, at) + n;
        return 0;
}

static const char two_blanks[] = "more than one blank in the request line";

static int on_target(llhttp_t *parser, const char *at, size_t n)
{
        struct http_reader *reader = reader_of(parser);

        if (reader->head.length == 0 && offset_of(reader, at) != reader->part_end + 1)
                return refuse(reader, BAD_REQUEST, two_blanks);
        if (reader->head.length + n > reader->target_max)
                return refuse(reader, URI_TOO_LONG, "the target is too long");
        reader->part_end = offset_of(reader, at) + n;
        return add_text(reader, at, n);
}

static int on_version(llhttp_t *parser, const char *at, size_t n)
{
        struct http_reader *reader = reader_of(parser);
        size_t begin = reader->part_end + strlen(" HTTP/");

        if (!reader->has_version && offset_of(reader, at) != begin)
                return refuse(reader, BAD_REQUEST, two_blanks);
        reader->has_version = true;
        return 0;
}

/* The begin of a name is known by the text before it, which is complete. */
static int on_name(llhttp_t *parser, const char *at, size_t n)
{
        struct http_reader *reader = reader_of(parser);

        if (reader->state != HTTP_READER_HEAD)
                return refuse(reader, BAD_REQUEST, "trailers are not taken");
        if (reader->n_headers == HTTP_HEADERS_MAX)
                return refuse(reader, FIELDS_TOO_LARGE, "too many headers");
        uint32_t *begin = &reader->headers[reader->n_headers].name;
        if (*begin == 0)
                *begin = (uint32_t)reader->head.length;
        if (!reader->is_proxy && reader->head.length + n - *begin > HTTP_NAME_MAX)
                return refuse(reader, FIELDS_TOO_LARGE, "the name of a header is too long");
        return add_text(reader, at, n);
}

static int on_name_complete(llhttp_t *parser)
{
        struct http_reader *reader = reader_of(parser);
        int r = end_text(parser);

        if (reader->n_headers < HTTP_HEADERS_MAX)
                reader->headers[reader->n_headers].value = (uint32_t)reader->head.length;
        return r;
}

static int on_value(llhttp_t *parser, const char *at, size_t n)
{
        struct http_reader *reader = reader_of(parser);

        /* llhttp lets tabs pass, and bytes above 127, which nothing here needs. */
        for (size_t i = 0; i < n; i++) {
                if ((unsigned char)at[i] < 0x20 && at[i] != '\t')
                        return refuse(reader, BAD_REQUEST, "a control character in a header");
        }
        return add_text(reader, at, n);
}

/* The parser takes the blanks before a value away, but not those behind it. */
static int on_value_complete(llhttp_t *parser)
{
        struct http_reader *reader = reader_of(parser);
        struct buffer *head = &reader->head;
        size_t begin = reader->headers[reader->n_headers++].value;

        while (head->length > begin && strchr("\t ", buffer_tail(head)[-1]))
                head->length--;
        return end_text(parser);
}

const char *http_request_header(const struct http_reader *reader, const char *name)
{
        const char *texts = buffer_bytes(&reader->head);

        for (size_t i = 0; i < reader->n_headers; i++) {
                if (strcasecmp(texts + reader->headers[i].name, name) == 0)
                        return texts + reader->headers[i].value;
        }
        return NULL;
}

bool http_request_each(const struct http_reader *reader, size_t i, const char **name,
                       const char **value)
{
        const char *texts = buffer_bytes(&reader->head);

        if (i >= reader->n_headers)
                return false;
        *name = texts + reader->headers[i].name;
        *value = texts + reader->headers[i].value;
        return true;
}

const char *http_request_method(const struct http_reader *reader)
{
        return llhttp_method_name((llhttp_method_t)llhttp_get_method((llhttp_t *)&reader->parser));
}

const char *http_request_target(const struct http_reader *reader)
{
        return reader->has_target ? buffer_bytes(&reader->head) : NULL;
}

static size_t count(const struct http_reader *reader, const char *name)
{
        const char *texts = buffer_bytes(&reader->head);
        size_t n = 0;

        for (size_t i = 0; i < reader->n_headers; i++)
                n += strcasecmp(texts + reader->headers[i].name, name) == 0;
        return n;
}

bool http_list_has(const char *list, const char *token)
{
        size_t n = strlen(token);

        while (*list) {
                list += strspn(list, " \t,");
                size_t length = strcspn(list, ",; \t");
                if (length == n && strncasecmp(list, token, n) == 0)
                        return true;
                list += strcspn(list, ",");
        }
        return false;
}

static int check_single(struct http_reader *reader)
{
        for (size_t i = 0; i < (reader->is_proxy ? 3 : ARRAY_SIZE(single)); i++) {
                if (count(reader, single[i]) > 1)
                        return refuse(reader, BAD_REQUEST,
                                      "a header that has one value is there twice");
        }
        return 0;
}

static int check_framing(struct http_reader *reader)
{
        const char *coding = http_request_header(reader, "transfer-encoding");
        const char *expect = http_request_header(reader, "expect");
        const char *length = http_request_header(reader, "content-length");

        if (coding && length)
                return refuse(reader, BAD_REQUEST, "Transfer-Encoding and Content-Length");
        if (coding && strcasecmp(coding, "chunked") != 0)
                return refuse(reader, NOT_IMPLEMENTED, "a transfer coding other than chunked");
        if (coding && reader->request.minor_0)
                return refuse(reader, BAD_REQUEST, "a transfer coding in HTTP/1.0");
        if (length && (strlen(length) > LENGTH_DIGITS_MAX ||
                       reader->parser.content_length > reader->body_max))
                return refuse(reader, CONTENT_TOO_LARGE, "the body is too large");
        if (reader->is_proxy) {
                bool connects = reader->request.method == HTTP_METHOD_CONNECT;
                /* A proxy ignores requests for an upgrade. */
                reader->parser.upgrade = connects;
                return connects && (coding || length)
                               ? refuse(reader, BAD_REQUEST, "a body behind CONNECT")
                               : 0;
        }
        if (expect && strcasecmp(expect, "100-continue") != 0)
                return refuse(reader, EXPECTATION_FAILED, "an expectation other than 100-continue");
        if (llhttp_get_upgrade(&reader->parser))
                return refuse(reader, BAD_REQUEST, "upgrades are not taken");
        reader->declared = length ? (size_t)reader->parser.content_length : 0;
        reader->request.expects_continue = expect && !reader->request.minor_0;
        return 0;
}

static int take_target(struct http_reader *reader)
{
        char *target = buffer_bytes(&reader->head);

        if (target[0] != '/' || strchr(target, '#'))
                return refuse(reader, BAD_REQUEST, "the target is not a path");
        reader->request.path = target;
        char *query = strchr(target, '?');
        reader->request.query = query ? query + 1 : NULL;
        if (query)
                *query = '\0';
        return 0;
}

static enum http_method method_of(llhttp_t *parser)
{
        switch (llhttp_get_method(parser)) {
        case HTTP_GET:
                return HTTP_METHOD_GET;
        case HTTP_HEAD:
                return HTTP_METHOD_HEAD;
        case HTTP_POST:
                return HTTP_METHOD_POST;
        case HTTP_DELETE:
                return HTTP_METHOD_DELETE;
        case HTTP_CONNECT:
                return HTTP_METHOD_CONNECT;
        default:
                return HTTP_METHOD_OTHER;
        }
}

static int on_headers_complete(llhttp_t *parser)
{
        struct http_reader *reader = reader_of(parser);
        unsigned major = llhttp_get_http_major(parser), minor = llhttp_get_http_minor(parser);

        if (major != 1 || minor > 1)
                return refuse(reader, VERSION_NOT_SUPPORTED, "a version other than HTTP/1.1");
        reader->request.minor_0 = minor == 0;
        reader->request.method = method_of(parser);
        reader->request.keep_alive = llhttp_should_keep_alive(parser);
        bool needs_host = !reader->is_proxy ||
                          (minor > 0 && reader->request.method != HTTP_METHOD_CONNECT);
        if (needs_host && count(reader, "host") != 1)
                return refuse(reader, BAD_REQUEST, "exactly one Host is needed");
        int r = check_single(reader);
        if (r == 0)
                r = check_framing(reader);
        if (r == 0 && !reader->is_proxy)
                r = take_target(reader);
        if (r != 0)
                return r;
        reader->state = HTTP_READER_HEADERS;
        return HPE_PAUSED;
}

static int on_chunk_header(llhttp_t *parser)
{
        struct http_reader *reader = reader_of(parser);

        reader->is_last_chunk = parser->content_length == 0;
        return parser->content_length > reader->body_max - reader->request.body.length
                       ? refuse(reader, CONTENT_TOO_LARGE, "the body is too large")
                       : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
        struct http_reader *reader = reader_of(parser);
        struct buffer *body = &reader->request.body;

        if (reader->is_proxy)
                return 0;
        if (n > reader->body_max - body->length)
                return refuse(reader, CONTENT_TOO_LARGE, "the body is too large");
        /* At once, because growing copies. But a client has to send something first. */
        if (body->length >= RESERVE_MIN && reader->declared > body->length)
                (void)buffer_reserve(body, reader->declared - body->length);
        return buffer_append(&reader->request.body, at, n) < 0
                       ? refuse(reader, CONTENT_TOO_LARGE, "out of memory for the body")
                       : 0;
}

static int on_chunk_complete(llhttp_t *parser)
{
        struct http_reader *reader = reader_of(parser);

        if (reader->is_last_chunk)
                return 0;
        reader->in_size = true;
        reader->size_digits = 0;
        return HPE_PAUSED;
}

static int on_extension(llhttp_t *parser, const char *at, size_t n)
{
        return refuse(reader_of(parser), BAD_REQUEST, "chunk extensions are not taken");
}

static int on_message_complete(llhttp_t *parser)
{
        reader_of(parser)->state = HTTP_READER_DONE;
        return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
        .on_method = on_method,
        .on_url = on_target,
        .on_version = on_version,
        .on_url_complete = on_target_complete,
        .on_header_field = on_name,
        .on_header_field_complete = on_name_complete,
        .on_header_value = on_value,
        .on_header_value_complete = on_value_complete,
        .on_headers_complete = on_headers_complete,
        .on_body = on_body,
        .on_chunk_header = on_chunk_header,
        .on_chunk_complete = on_chunk_complete,
        .on_chunk_extension_name = on_extension,
        .on_message_complete = on_message_complete,
};

void http_reader_init(struct http_reader *reader, size_t body_max)
{
        *reader = (struct http_reader){
                .body_max = body_max, .target_max = HTTP_TARGET_MAX, .in_size = true};
        buffer_init(&reader->head, TEXTS_MAX);
        buffer_init(&reader->request.body, SIZE_MAX / 2);
        llhttp_init(&reader->parser, HTTP_REQUEST, &settings);
        reader->parser.data = reader;
}

void http_reader_init_proxy(struct http_reader *reader)
{
        http_reader_init(reader, SIZE_MAX);
        reader->target_max = HTTP_HEAD_MAX;
        reader->is_proxy = true;
}

void http_reader_done(struct http_reader *reader)
{
        buffer_done(&reader->head);
        buffer_done(&reader->request.body);
}

void http_reader_next(struct http_reader *reader, size_t body_max)
{
        http_reader_done(reader);
        http_reader_init(reader, body_max);
}

static ssize_t refused(const struct http_reader *reader, struct error *err)
{
        return error_set(err, EBADMSG, "%s", reader->why);
}

/* llhttp has one code for an unknown version and for bytes behind the version. */
static ssize_t refuse_by_parser(struct http_reader *reader, struct error *err)
{
        const char *why = llhttp_get_error_reason(&reader->parser);
        bool version = llhttp_get_errno(&reader->parser) == HPE_INVALID_VERSION &&
                       strcmp(why, "Invalid HTTP version") == 0;

        refuse(reader, version ? VERSION_NOT_SUPPORTED : BAD_REQUEST, why);
        return refused(reader, err);
}

/* Returns how many of the bytes may be fed, or 0 if the head is too large. */
static size_t bounded(struct http_reader *reader, size_t n)
{
        size_t room = HTTP_HEAD_MAX - reader->head_bytes;

        if (reader->state != HTTP_READER_HEAD)
                return n;
        n = n < room ? n : room;
        reader->head_bytes += n;
        return n;
}

/* llhttp skips them. */
static bool is_bare(struct http_reader *reader, const char *bytes, size_t n)
{
        for (size_t i = 0; i < n && !reader->began; i++) {
                if (reader->after_cr != (bytes[i] == '\n'))
                        return true;
                reader->after_cr = bytes[i] == '\r';
                reader->began = bytes[i] != '\r' && bytes[i] != '\n';
        }
        return false;
}

/* The size of a chunk may begin with any number of zeros, which llhttp does not count. */
static bool is_long_size(struct http_reader *reader, const char *bytes, size_t n)
{
        for (size_t i = 0; i < n && reader->in_size; i++) {
                reader->in_size = isxdigit((unsigned char)bytes[i]) &&
                                  ++reader->size_digits <= SIZE_DIGITS_MAX;
                if (reader->size_digits > SIZE_DIGITS_MAX)
                        return true;
        }
        return false;
}

/* Returns how many bytes were taken, or negative: llhttp's error. */
static ssize_t execute(struct http_reader *reader, const char *bytes, size_t n)
{
        llhttp_t *parser = &reader->parser;
        size_t used = 0;

        for (;;) {
                if (reader->state == HTTP_READER_BODY && parser->flags & F_CHUNKED &&
                    is_long_size(reader, bytes + used, n - used)) {
                        refuse(reader, BAD_REQUEST, "the size of a chunk has too many digits");
                        return -EBADMSG;
                }
                llhttp_errno_t code = llhttp_execute(parser, bytes + used, n - used);
                if (code == HPE_OK)
                        return (ssize_t)n;
                if (code != HPE_PAUSED && code != HPE_PAUSED_UPGRADE)
                        return -EBADMSG;
                used = (size_t)(llhttp_get_error_pos(parser) - bytes);
                if (reader->state != HTTP_READER_BODY)
                        return (ssize_t)used;
                llhttp_resume(parser);
        }
}

ssize_t http_reader_feed(struct http_reader *reader, const char *bytes, size_t n, struct error *err)
{
        if (reader->state == HTTP_READER_REFUSED)
                return refused(reader, err);
        if (reader->state == HTTP_READER_DONE)
                return 0;
        if (reader->state == HTTP_READER_IDLE && n > 0)
                reader->state = HTTP_READER_HEAD;
        if (reader->state == HTTP_READER_HEADERS) {
                reader->state = HTTP_READER_BODY;
                llhttp_resume(&reader->parser);
        }
        reader->before = reader->head_bytes;
        reader->piece = bytes;
        size_t most = bounded(reader, n);
        if (n > 0 && most == 0) {
                refuse(reader, FIELDS_TOO_LARGE, "the head is too large");
                return refused(reader, err);
        }
        if (is_bare(reader, bytes, most)) {
                refuse(reader, BAD_REQUEST, "a bare CR or LF before the request");
                return refused(reader, err);
        }
        ssize_t used = execute(reader, bytes, most);
        if (reader->state == HTTP_READER_REFUSED)
                return refused(reader, err);
        return used < 0 ? refuse_by_parser(reader, err) : used;
}
