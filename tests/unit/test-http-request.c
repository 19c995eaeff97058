/* Requests: the same result for any division of the bytes, every refused form, and every limit. */
#include "rpc/http/request.h"

#include <errno.h>

#include "tests/unit/test.h"

enum { BODY_MAX = 32 };

/* Returns how many requests were complete, or minus the status of the refusal. */
static int read_all(const char *bytes, size_t n, size_t piece)
{
        struct http_reader reader;
        struct error err = {};
        int done = 0;
        size_t at = 0;

        http_reader_init(&reader, BODY_MAX);
        while (at < n) {
                ssize_t r = http_reader_feed(&reader, bytes + at, n - at < piece ? n - at : piece,
                                             &err);
                if (r < 0) {
                        check_eq_int(r, -EBADMSG);
                        check(error_is_set(&err));
                        done = -reader.status;
                        break;
                }
                at += (size_t)r;
                /* A request without a body is complete without another byte. */
                if (reader.state == HTTP_READER_HEADERS)
                        check(http_reader_feed(&reader, "", 0, &err) == 0);
                if (reader.state == HTTP_READER_DONE) {
                        done++;
                        http_reader_next(&reader, BODY_MAX);
                }
        }
        http_reader_done(&reader);
        return done;
}

static void check_read(const char *bytes, size_t n, int expected)
{
        for (size_t piece = 1; piece <= n; piece = piece < 8 ? piece + 1 : piece * 2)
                check_eq_int(read_all(bytes, n, piece), expected);
        check_eq_int(read_all(bytes, n, n), expected);
}

#define POST     "POST /mcp HTTP/1.1\r\nHost: a\r\n"
#define CHARS_31 "0123456789012345678901234567890"
#define GET      "GET /mcp HTTP/1.1\r\nHost: a\r\n"

static const struct {
        const char *text;
        int expected;
} forms[] = {
        {GET "\r\n", 1},
        {GET "\r\n" GET "\r\n", 2},
        {POST "Content-Length: 3\r\n\r\nabc", 1},
        {POST "Content-Length: 3\r\n\r\nabc" GET "\r\n", 2},
        {POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 1},
        {POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" GET "\r\n", 2},
        {"GET / HTTP/1.0\r\nHost: a\r\n\r\n", 1},
        {POST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", 1},
        {GET "X: \r\n\r\n", 1},
        /* where a message ends */
        {POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", -400},
        {POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", -400},
        {POST "Content-Length: 3, 3\r\n\r\nabc", -400},
        {POST "Content-Length: +3\r\n\r\nabc", -400},
        {POST "Content-Length: -3\r\n\r\nabc", -400},
        {POST "Content-Length: 0x3\r\n\r\nabc", -400},
        {POST "Content-Length: 3 4\r\n\r\nabc", -400},
        {POST "Content-Length: \r\n\r\nabc", -400},
        {POST "Content-Length: 99999999999999999999\r\n\r\nabc", -400},
        {POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", -501},
        {POST "Transfer-Encoding: chunked, identity\r\n\r\n", -400},
        {POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", -501},
        {POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", -400},
        {POST "Transfer-Encoding: chunked\r\n\r\n21\r\n", -413},
        {POST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n20\r\n", -413},
        {POST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1f\r\n" CHARS_31 "\r\n0\r\n\r\n", 1},
        {"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", -400},
        /* lines */
        {"GET / HTTP/1.1\nHost: a\n\n", -400},
        {"\r\n" GET "\r\n", 1},
        {GET "\r\n\r\n\r\n" GET "\r\n", 2},
        {"\n" GET "\r\n", -400},
        {"\r\n\n" GET "\r\n", -400},
        {"\r" GET "\r\n", -400},
        {"\r\r\n" GET "\r\n", -400},
        {" " GET "\r\n", -400},
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET   / HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", -400},
        {"GET / HTTP/1.1\r\nHost: a\r\rX: y\r\n\r\n", -400},
        {GET "X: a\r\n b\r\n\r\n", -400},
        {GET "X: a\r\n\tb\r\n\r\n", -400},
        {GET " X: a\r\n\r\n", -400},
        {GET "X : a\r\n\r\n", -400},
        {GET ": a\r\n\r\n", -400},
        {GET "X\r\n\r\n", -400},
        {GET "X: a\x01\r\n\r\n", -400},
        {GET "X\xff: a\r\n\r\n", -400},
        /* hosts */
        {"GET / HTTP/1.1\r\n\r\n", -400},
        {"GET / HTTP/1.0\r\n\r\n", -400},
        {GET "Host: b\r\n\r\n", -400},
        {GET "HOST: a\r\n\r\n", -400},
        /* targets, methods, versions */
        {"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", -400},
        {"GET /\r\nHost: a\r\n\r\n", -505},
        {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"get / HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"XYZZY / HTTP/1.1\r\nHost: a\r\n\r\n", -400},
        {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", -505},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", -505},
        {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", -505},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", -400},
        {GET "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", -400},
        {GET "Expect: x\r\n\r\n", -417},
        {GET "Origin: a\r\nOrigin: b\r\n\r\n", -400},
        {GET "Authorization: a\r\nAuthorization: b\r\n\r\n", -400},
        {GET "Mcp-Session-Id: a\r\nMcp-Session-Id: a\r\n\r\n", -400},
};

static void test_forms(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                int r = read_all(forms[i].text, strlen(forms[i].text), SIZE_MAX / 2);
                if (r != forms[i].expected)
                        fprintf(stderr, "%s\n: %d, not %d\n", forms[i].text, r, forms[i].expected);
                check_read(forms[i].text, strlen(forms[i].text), forms[i].expected);
        }
        check_read(GET "X: a\0b\r\n\r\n", sizeof(GET "X: a\0b\r\n\r\n") - 1, -400);
        check_read("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
                   sizeof("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n") - 1, -400);
}

/* Reads a head with this length of its target, and this number and length of headers. */
static int read_head(size_t target, size_t headers, size_t name, size_t value)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(1024 * 1024);

        buffer_printf(&text, "GET /%0*d HTTP/1.1\r\nHost: a\r\n", (int)target - 1, 0);
        for (size_t i = 0; i < headers; i++)
                buffer_printf(&text, "%0*zu: %0*d\r\n", (int)name, i, (int)value, 0);
        buffer_printf(&text, "\r\n");
        int r = read_all(buffer_bytes(&text), text.length, SIZE_MAX / 2);
        check_eq_int(read_all(buffer_bytes(&text), text.length, 7), r);
        return r;
}

static void test_limits(void)
{
        check_eq_int(read_head(HTTP_TARGET_MAX, 0, 1, 1), 1);
        check_eq_int(read_head(HTTP_TARGET_MAX + 1, 0, 1, 1), -414);
        check_eq_int(read_head(10, HTTP_HEADERS_MAX - 1, 5, 1), 1);
        check_eq_int(read_head(10, HTTP_HEADERS_MAX, 5, 1), -431);
        check_eq_int(read_head(10, 1, HTTP_NAME_MAX, 1), 1);
        check_eq_int(read_head(10, 1, HTTP_NAME_MAX + 1, 1), -431);
        check_eq_int(read_head(10, 1, 5, HTTP_HEAD_MAX - 64), 1);
        check_eq_int(read_head(10, 1, 5, HTTP_HEAD_MAX), -431);
        check_eq_int(read_head(10, 1000, 5, 1), -431);
        check_read(POST "Content-Length: 33\r\n\r\n", sizeof(POST "Content-Length: 33\r\n\r\n") - 1,
                   -413);
        const char chunks[] = POST
                "Transfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n11\r\n0123456789abcdefg\r\n";
        check_read(chunks, sizeof(chunks) - 1, -413);
}

/* Blanks around a value are not part of it (RFC 9110, section 5.5), in pieces of any size. */
static void test_blanks(void)
{
        const char text[] = "GET / HTTP/1.1\r\nHost: a \r\nA: \t b  c \t \r\nB: \t \r\nC:d\r\n\r\n";
        size_t n = sizeof(text) - 1;
        struct error err = {};

        for (size_t piece = 1; piece <= n; piece++) {
                struct http_reader reader;
                http_reader_init(&reader, BODY_MAX);
                for (size_t at = 0; at < n; at += piece) {
                        size_t length = n - at < piece ? n - at : piece;
                        check_eq_int(http_reader_feed(&reader, text + at, length, &err),
                                     (ssize_t)length);
                }
                check_eq_int(reader.state, HTTP_READER_HEADERS);
                check_eq_str(http_request_header(&reader, "host"), "a");
                check_eq_str(http_request_header(&reader, "a"), "b  c");
                check_eq_str(http_request_header(&reader, "b"), "");
                check_eq_str(http_request_header(&reader, "c"), "d");
                http_reader_done(&reader);
        }
}

static void test_head(void)
{
        const char text[] =
                "POST /mcp?a=b HTTP/1.1\r\nHost: x:1\r\nACCEPT: a/b;q=1, text/event-stream\r\n"
                "Content-Length: 2\r\nExpect: 100-continue\r\n\r\nhirest";
        struct http_reader reader;
        struct error err = {};

        http_reader_init(&reader, BODY_MAX);
        ssize_t n = http_reader_feed(&reader, text, sizeof(text) - 1, &err);
        check_eq_int(reader.state, HTTP_READER_HEADERS);
        check_eq_int(n, (ssize_t)(strstr(text, "\r\n\r\n") + 4 - text));
        check_eq_int(reader.request.method, HTTP_METHOD_POST);
        check_eq_str(reader.request.path, "/mcp");
        check_eq_str(reader.request.query, "a=b");
        check(reader.request.keep_alive && reader.request.expects_continue);
        check_eq_str(http_request_header(&reader, "host"), "x:1");
        check(!http_request_header(&reader, "origin"));
        const char *accept = http_request_header(&reader, "accept");
        check(http_list_has(accept, "text/event-stream") && http_list_has(accept, "A/B"));
        check(!http_list_has(accept, "q=1") && !http_list_has(accept, "text"));
        check_eq_int(http_reader_feed(&reader, text + n, sizeof(text) - 1 - (size_t)n, &err), 2);
        check_eq_int(reader.state, HTTP_READER_DONE);
        check_eq_bytes(buffer_bytes(&reader.request.body), reader.request.body.length, "hi");
        check_eq_int(http_reader_feed(&reader, "rest", 4, &err), 0);
        http_reader_done(&reader);
}

int main(void)
{
        run(test_forms);
        run(test_limits);
        run(test_blanks);
        run(test_head);
        return 0;
}
