/* The first message of a TLS client, for its server name (RFC 8446, 4.1.2; RFC 6066, 3). */
#pragma once

#include <stddef.h>

#include "policy/network-rules.h"
#include "rpc/egress-messages.h"

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
