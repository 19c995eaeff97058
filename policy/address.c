/* Kinds of internet addresses. */
#include "policy/address.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

static enum address_kind kind_of_v4(uint32_t a)
{
        static const struct {
                uint32_t net;
                int bits;
                enum address_kind kind;
        } nets[] = {
                {0x00000000, 8, ADDRESS_NEVER},    /* this network */
                {0x0a000000, 8, ADDRESS_PRIVATE},  /* 10.0.0.0 */
                {0x64400000, 10, ADDRESS_PRIVATE}, /* 100.64.0.0, shared */
                {0x7f000000, 8, ADDRESS_LOOPBACK},
                {0xa9fe0000, 16, ADDRESS_NEVER}, /* 169.254.0.0, link-local: the clouds' metadata */
                {0xac100000, 12, ADDRESS_PRIVATE}, /* 172.16.0.0 */
                {0xc0000000, 24, ADDRESS_NEVER},   /* 192.0.0.0, protocols */
                {0xc0000200, 24, ADDRESS_NEVER},   /* documentation, and the two below */
                {0xc6336400, 24, ADDRESS_NEVER},
                {0xcb007100, 24, ADDRESS_NEVER},
                {0xc0586300, 24, ADDRESS_NEVER},   /* 192.88.99.0, 6to4 relays */
                {0xc0a80000, 16, ADDRESS_PRIVATE}, /* 192.168.0.0 */
                {0xc6120000, 15, ADDRESS_PRIVATE}, /* 198.18.0.0, benchmarks */
                {0xe0000000, 3, ADDRESS_NEVER},    /* multicast, reserved, broadcast */
        };

        for (size_t i = 0; i < ARRAY_SIZE(nets); i++)
                if (a >> (32 - nets[i].bits) == nets[i].net >> (32 - nets[i].bits))
                        return nets[i].kind;
        return ADDRESS_PUBLIC;
}

static uint32_t embedded(const unsigned char *bytes)
{
        return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
               bytes[3];
}

static bool is_nat64(const unsigned char *b)
{
        static const unsigned char nat64[12] = {0, 0x64, 0xff, 0x9b};

        return memcmp(b, nat64, sizeof(nat64)) == 0;
}

static enum address_kind kind_of_v6(const struct in6_addr *address)
{
        const unsigned char *b = address->s6_addr;

        if (IN6_IS_ADDR_LOOPBACK(address))
                return ADDRESS_LOOPBACK;
        if (IN6_IS_ADDR_V4MAPPED(address) || is_nat64(b))
                return kind_of_v4(embedded(b + 12));
        if (b[0] == 0x20 && b[1] == 0x02) /* 6to4 */
                return kind_of_v4(embedded(b + 2));
        if ((b[0] & 0xfe) == 0xfc)
                return ADDRESS_PRIVATE;
        if (b[0] == 0x20 && b[1] == 0x01 && (b[2] < 2 || (b[2] == 0x0d && b[3] == 0xb8)))
                return ADDRESS_NEVER; /* 2001::/23: Teredo and other protocols; documentation */
        if (b[0] == 0x3f && b[1] == 0xff && (b[2] & 0xf0) == 0)
                return ADDRESS_NEVER; /* 3fff::/20, documentation */
        return (b[0] & 0xe0) == 0x20 ? ADDRESS_PUBLIC : ADDRESS_NEVER;
}

enum address_kind address_kind(const struct sockaddr *address)
{
        if (address->sa_family == AF_INET) {
                struct sockaddr_in v4;
                memcpy(&v4, address, sizeof(v4));
                return kind_of_v4(ntohl(v4.sin_addr.s_addr));
        }
        if (address->sa_family == AF_INET6) {
                struct sockaddr_in6 v6;
                memcpy(&v6, address, sizeof(v6));
                return kind_of_v6(&v6.sin6_addr);
        }
        return ADDRESS_NEVER;
}

bool address_is_translated(const struct sockaddr *address)
{
        struct sockaddr_in6 v6;

        if (address->sa_family != AF_INET6)
                return false;
        memcpy(&v6, address, sizeof(v6));
        const unsigned char *b = v6.sin6_addr.s6_addr;
        bool is_compatible = IN6_IS_ADDR_V4COMPAT(&v6.sin6_addr);
        return IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) || is_compatible ||
               (b[0] == 0 && b[1] == 0x64 && b[2] == 0xff && b[3] == 0x9b) ||
               (b[0] == 0x20 && b[1] == 0x02);
}
