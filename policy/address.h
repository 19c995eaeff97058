/* What an internet address belongs to, by the registries of IANA for special addresses. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

enum address_kind {
        ADDRESS_PUBLIC,
        ADDRESS_LOOPBACK,
        ADDRESS_PRIVATE, /* RFC 1918, RFC 4193, RFC 6598, benchmarks */
        ADDRESS_NEVER,   /* link-local (the clouds' metadata), multicast, documentation, reserved */
};

/* IPv6 addresses that contain an IPv4 address (mapped, NAT64, 6to4) are of the kind of that one. Another
 * family is ADDRESS_NEVER. */
enum address_kind address_kind(const struct sockaddr *address);

/* Whether it is an IPv6 address that contains an IPv4 address: mapped, compatible, NAT64, 6to4. */
bool address_is_translated(const struct sockaddr *address);
