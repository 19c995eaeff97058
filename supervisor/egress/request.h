/*
 * A request to the proxy: CONNECT, or one with an absolute URI of http, as rpc/http/request.h reads it.
 *
 * Strict: what has two readings is refused (two hosts, users in an authority), because the server behind might take the
 * other one.
 */
#pragma once

#include <stdbool.h>
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
