/*
 * Bytes of a sandbox to its proxy. With the first byte of TLS, the input is the ClientHello of a
 * tunnel to site.example: accepted if it is valid. Otherwise it is a request: accepted if its head
 * and body are complete and no byte follows. More bytes never change a verdict.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "supervisor/egress/request.h"
#include "tests/fuzz/fuzz.h"

static bool check_hello(const uint8_t *data, size_t n)
{
        static const char name[] = "site.example";
        struct network_host host;
        enum egress_reason why;

        assert(network_host_parse(name, sizeof(name) - 1, &host));
        int r = client_hello_check(data, n, &host, &why);
        for (size_t part = 0; part < n && part < 600; part++) {
                int early = client_hello_check(data, part, &host, &why);
                /* A verdict stays; a later record can't change it. */
                assert(early == 0 || early == r);
        }
        assert(r >= 0 || (r == -EINVAL && why > EGRESS_FINE && why < EGRESS_REASON_MAX));
        return r == 1;
}

/* The forwarded head has one reading: lines end with CR LF, and there is one Host. */
static void check_forward(const struct buffer *forward, const struct request *request)
{
        const char *text = buffer_bytes(forward);
        size_t hosts = 0;

        assert(forward->length > 4 && memcmp(text + forward->length - 4, "\r\n\r\n", 4) == 0);
        assert(memmem(text, forward->length, "\r\n\r\n", 4) == text + forward->length - 4);
        for (size_t i = 0; i < forward->length; i++) {
                assert(text[i] != '\0' && (text[i] != '\n' || text[i - 1] == '\r'));
                if (text[i] == '\n' && i + 6 < forward->length &&
                    strncasecmp(text + i + 1, "host:", 5) == 0)
                        hosts++;
        }
        assert(hosts == 1 && request->port != 0 && request->has_host);
        assert(memmem(text, forward->length, "\r\nConnection: close\r\n\r\n", 23));
}

/* Returns how many bytes are the request, -1 if it is refused or incomplete: fed in pieces of this size. */
static ssize_t read_request(const char *data, size_t n, size_t piece)
{
        _cleanup_buffer_ struct buffer forward = BUFFER_INIT(64 * 1024);
        struct http_reader reader;
        struct request request = {};
        struct error err = {};
        enum egress_reason why;
        size_t at = 0;
        ssize_t used = 0;

        http_reader_init_proxy(&reader);
        while (used >= 0 && at < n && reader.state < HTTP_READER_HEADERS) {
                used = request_feed(&reader, data + at, n - at < piece ? n - at : piece, &request,
                                    &why);
                assert(used >= 0 || egress_is_denial(why));
                at += used > 0 ? (size_t)used : 0;
        }
        if (used >= 0 && reader.state == HTTP_READER_HEADERS && !request.is_connect) {
                assert(request_append_forward(&reader, &request, &forward) == 0);
                check_forward(&forward, &request);
                do {
                        used = http_reader_feed(&reader, data + at, n - at < piece ? n - at : piece,
                                                &err);
                        at += used > 0 ? (size_t)used : 0;
                } while (used >= 0 && at < n && reader.state != HTTP_READER_DONE);
        }
        bool good = used >= 0 &&
                    reader.state == (request.is_connect ? HTTP_READER_HEADERS : HTTP_READER_DONE);
        http_reader_done(&reader);
        return good ? (ssize_t)at : -1;
}

static bool check_request(const char *data, size_t n)
{
        ssize_t whole = read_request(data, n, n), single = read_request(data, n, 1);

        assert(whole == single);
        return whole == (ssize_t)n;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        if (n > 0 && data[0] == TLS_HANDSHAKE)
                return check_hello(data, n);
        return check_request((const char *)data, n);
}

FUZZ_TARGET
