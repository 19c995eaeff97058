/*
 * A request to the proxy: CONNECT, or one with an absolute URI of http, as rpc/http/request.h reads it.
 *
 * Strict: what has two readings is refused (two hosts, users in an authority), because the server behind might take the
 * other one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "policy/network-rules.h"
#include "rpc/egress-messages.h"
#include "rpc/http/request.h"

struct request {
        bool is_connect;
        bool has_host; /* host and port are known, also after an error */
        struct network_host host;
        uint16_t port;
};

/* Feeds n bytes to a reader for a proxy. Returns how many are part of the head: the reader's state is HTTP_READER_HEADERS
 * once the head is complete; -EINVAL: *why. */
ssize_t request_feed(struct http_reader *reader, const char *data, size_t n, struct request *ret,
                     enum egress_reason *why);

/* The head for the server of a request that is not CONNECT: with a path instead of the URI, without headers that are for
 * the proxy, and with "Connection: close". 0 or negative errno. */
int request_append_forward(const struct http_reader *reader, const struct request *request,
                           struct buffer *to);

/* ---- the first message of a TLS client, for its server name (RFC 8446, 4.1.2; RFC 6066, 3) ---- */

enum {
        CLIENT_HELLO_MAX = 16 * 1024, /* with the headers of its records */
        TLS_HANDSHAKE = 22,           /* the first byte of a record with it */
};

/*
 * Whether the bytes begin with a ClientHello for this host. Returns 1: they do; 0: more are needed; -EINVAL: *why.
 * A host that is an address must not be named. An encrypted ClientHello (RFC 9849) is refused: its name is hidden.
 */
int client_hello_check(const unsigned char *data, size_t n, const struct network_host *host,
                       enum egress_reason *why);
