/*
 * The head of a request to the proxy: CONNECT, or one with an absolute URI of http.
 *
 * Strict: what has two readings is refused (bare line feeds, two lengths, two hosts, folded lines, blanks before a
 * colon, users in an authority), because the server behind might take the other one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "policy/network-rules.h"
#include "rpc/egress-messages.h"
#include "supervisor/egress/request-body.h"

enum { REQUEST_HEAD_MAX = 16 * 1024, REQUEST_HEADERS_MAX = 100 };

struct request_head {
        size_t size; /* bytes of the head */
        bool is_connect;
        bool has_host; /* host and port are known, also after an error */
        struct network_host host;
        uint16_t port;
        struct request_body body; /* none after CONNECT */
};

/*
 * Returns 1: the head is complete; 0: more is needed; -EINVAL: *why. `forward` gets the head for the server of a
 * request that is not CONNECT: with a path instead of the URI, without headers that are for the proxy, and with
 * "Connection: close". -ENOMEM.
 */
int request_head_parse(const char *data, size_t n, struct request_head *ret, struct buffer *forward,
                       enum egress_reason *why);
