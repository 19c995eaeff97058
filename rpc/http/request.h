/*
 * Reads HTTP/1.1 requests from a stream of bytes: llhttp in strict mode, limits, and the refusal of
 * whatever two parsers could read differently (RFC 9112, section 11.2). A refused stream is over:
 * where the next request begins is not known.
 *
 *     n = http_reader_feed(&reader, bytes, length, &err);
 *     n < 0                       refused: answer reader.status and close
 *     HTTP_READER_HEADERS         the head is complete: look at it, then feed on
 *     HTTP_READER_DONE            the request is complete; http_reader_next() begins the next one
 *
 * Feeding returns early at both points, so that the bytes behind stay with the caller.
 *
 * Refused besides what llhttp refuses: no Host or two, two of any header that has one value, other
 * transfer codings than chunked, chunk extensions, trailers, upgrades, targets that do not begin
 * with a slash, Expect other than 100-continue, a bare CR or LF before the request, more than one blank
 * between the parts of the first line. A chunk that is too large is refused by its size.
 *
 * A reader for a proxy accepts any target, upgrades and expectations, and HTTP/1.0 and CONNECT without Host; only Host,
 * Content-Length and Transfer-Encoding must not be there twice. It refuses an empty line before the request and a body
 * behind CONNECT. It keeps no body: the bytes that http_reader_feed() takes are the body as it was sent.
 */
#pragma once

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
        HTTP_TARGET_MAX = 4096,    /* bytes; more: 414 */
        HTTP_HEADERS_MAX = 100,    /* more: 431 */
        HTTP_HEAD_MAX = 16 * 1024, /* bytes of request line and headers as received; more: 431 */
        HTTP_NAME_MAX = 128,       /* bytes of a header's name; more: 431 */
};

enum http_reader_state {
        HTTP_READER_IDLE, /* no byte of a request was read */
        HTTP_READER_HEAD,
        HTTP_READER_HEADERS, /* stopped: the head is complete */
        HTTP_READER_BODY,
        HTTP_READER_DONE, /* stopped: the request is complete */
        HTTP_READER_REFUSED,
};

enum http_method {
        HTTP_METHOD_GET,
        HTTP_METHOD_HEAD, /* its response has no body */
        HTTP_METHOD_POST,
        HTTP_METHOD_DELETE,
        HTTP_METHOD_CONNECT,
        HTTP_METHOD_OTHER
};

struct http_request {
        enum http_method method;
        const char *path;  /* without the query; not decoded */
        const char *query; /* behind the '?', or NULL */
        bool keep_alive;
        bool minor_0; /* HTTP/1.0: no chunked response */
        bool expects_continue;
        struct buffer body;
};

struct http_reader {
        llhttp_t parser;
        enum http_reader_state state;
        int status;        /* REFUSED: of the response */
        size_t body_max;   /* may be changed in HEADERS; more: 413 */
        size_t target_max; /* may be changed before the first byte */
        struct http_request request;

        /* Private. Texts are in head, each with a NUL byte behind it. */
        struct buffer head;
        struct {
                uint32_t name, value; /* offsets */
        } headers[HTTP_HEADERS_MAX];
        size_t n_headers, head_bytes;
        size_t declared;   /* Content-Length, or 0 */
        size_t before;     /* head_bytes at the beginning of the piece */
        const char *piece; /* that is being fed */
        size_t part_end;   /* of the request line: offset behind the newest part */
        bool has_version, has_target;
        bool is_proxy;
        bool in_size, is_last_chunk;
        unsigned size_digits;
        bool began, after_cr; /* a byte of the request line was read; else the last one was CR */
        const char *why;
};

void http_reader_init(struct http_reader *reader, size_t body_max);
void http_reader_init_proxy(struct http_reader *reader);
void http_reader_done(struct http_reader *reader);
/* After DONE: frees the request and begins the next one. */
void http_reader_next(struct http_reader *reader, size_t body_max);

/* Takes at most n bytes. Returns how many were taken; -EBADMSG: refused, with the reason; -ENOMEM. */
ssize_t http_reader_feed(struct http_reader *reader, const char *bytes, size_t n,
                         struct error *err);

/* The value of a header, or NULL. From HEADERS on, until the next request. */
const char *http_request_header(const struct http_reader *reader, const char *name);
/* Header i, from 0, as it was sent. False: there are fewer. From HEADERS on. */
bool http_request_each(const struct http_reader *reader, size_t i, const char **name,
                       const char **value);
/* As it was sent, e.g. "GET". From HEADERS on. */
const char *http_request_method(const struct http_reader *reader);
/* NULL until all of it was read; also after a refusal. Only for a proxy: otherwise the path and the query. */
const char *http_request_target(const struct http_reader *reader);

/* Whether a list of tokens ("a, b;q=1") has this one, in any case. */
bool http_list_has(const char *list, const char *token);
