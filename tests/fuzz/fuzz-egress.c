/*
 * What a sandbox sends to its proxy. If it begins with the first byte of TLS, the ClientHello of a tunnel to
 * site.example: accepted if it is one. Else the head of a request and its body: accepted if both are complete and
 * nothing is behind them. No part of the bytes gives another verdict than more of them.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "supervisor/egress/client-hello.h"
#include "supervisor/egress/request-head.h"
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
                /* What was decided stays; a later record can't change it. */
                assert(early == 0 || early == r);
        }
        assert(r >= 0 || (r == -EINVAL && why > EGRESS_FINE && why < EGRESS_REASON_MAX));
        return r == 1;
}

/* What the server gets has one reading: lines end with CR LF, and there is one Host. */
static void check_forward(const struct buffer *forward, const struct request_head *head)
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
        assert(hosts == 1 && head->port != 0 && head->has_host);
        assert(memmem(text, forward->length, "\r\nConnection: close\r\n\r\n", 23));
}

static int read_head(const char *data, size_t n, struct request_head *ret)
{
        _cleanup_buffer_ struct buffer forward = BUFFER_INIT(64 * 1024);
        enum egress_reason why;

        int r = request_head_parse(data, n, ret, &forward, &why);
        assert(r == 0 || r == 1 || (r == -EINVAL && egress_is_denial(why)));
        if (r == 1 && !ret->is_connect)
                check_forward(&forward, ret);
        assert(r != 1 || ret->size <= n);
        return r;
}

static bool check_request(const char *data, size_t n)
{
        struct request_head head, early;

        int r = read_head(data, n, &head);
        if (r != 1)
                return false;
        for (size_t part = 0; part < head.size; part++)
                assert(read_head(data, part, &early) == 0);
        struct request_body whole = head.body, single = head.body;
        size_t left = n - head.size, taken = 0;
        ssize_t used = request_body_take(&whole, data + head.size, left), one = 1;
        while (taken < left && (one = request_body_take(&single, data + head.size + taken, 1)) > 0)
                taken++;
        assert(used < 0 ? one < 0 : (size_t)used == taken);
        return used >= 0 && (size_t)used == left && request_body_is_complete(&whole);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        if (n > 0 && data[0] == TLS_HANDSHAKE)
                return check_hello(data, n);
        return check_request((const char *)data, n);
}

FUZZ_TARGET
