/*
 * Which hosts a session may reach: "network": {"allow": […]} of a profile.
 *
 * A rule is HOST or HOST:PORT. HOST is a name, "*.NAME" (every name below NAME, not NAME itself), an IPv4 address,
 * an IPv6 address in brackets, or one of these with "/BITS". Without a port the rule is for 443 and 80.
 *
 * One strict parser reads hosts everywhere: of rules, of requests, of TLS. What other programs read as a number
 * (2130706433, 0x7f.1, 127.1, 010.0.0.1) is neither a name nor an address here.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
        NETWORK_NAME_MAX = 253,
        NETWORK_RULE_MAX = 262, /* bytes of a rule's text: "*.", a name, a port */
        NETWORK_RULES_MAX = 64,
        NETWORK_PORT_TLS = 443,
        NETWORK_PORT_HTTP = 80,
};

enum network_host_kind { NETWORK_NAME, NETWORK_V4, NETWORK_V6 };

struct network_host {
        enum network_host_kind kind;
        char text[NETWORK_NAME_MAX + 1]; /* lower case, no dot at the end, no brackets */
        unsigned char address[16];       /* of V4 and V6 */
};

struct network_rule {
        struct network_host host;
        bool below;    /* every name below it */
        unsigned bits; /* of an address */
        uint16_t port; /* 0: 443 and 80 */
};

/* A name, an IPv4 address or an IPv6 address in brackets. False: it is none of them. */
bool network_host_parse(const char *text, size_t n, struct network_host *ret);

/* HOST:PORT, or HOST if there is a port to use instead (0: there must be one). */
bool network_authority_parse(const char *text, size_t n, uint16_t otherwise,
                             struct network_host *host, uint16_t *port);

/* Returns NULL, or why the text is not a rule: a clause that follows its name. */
const char *network_rule_parse(const char *text, struct network_rule *ret);

bool network_host_equal(const struct network_host *a, const struct network_host *b);

/* Whether code may ask for this host and port: a rule names it. */
bool network_rules_name(const struct network_rule *rules, size_t n, const struct network_host *host,
                        uint16_t port);
/* Whether a connection to this address may be made: it is public, or a rule contains it. The port is the rule's
 * business: the address's own is not read. */
bool network_rules_reach(const struct network_rule *rules, size_t n, const struct sockaddr *address,
                         uint16_t port);
/* Whether a rule contains this very address. */
bool network_rules_contain(const struct network_rule *rules, size_t n,
                           const struct sockaddr *address, uint16_t port);

enum address_kind {
        ADDRESS_PUBLIC,
        ADDRESS_LOOPBACK,
        ADDRESS_PRIVATE, /* RFC 1918, RFC 4193, RFC 6598, benchmarks */
        ADDRESS_NEVER,   /* link-local (the clouds' metadata), multicast, documentation, reserved */
};

/* IPv6 addresses that contain an IPv4 address (mapped, NAT64, 6to4) are of the kind of that one. Another
 * family is ADDRESS_NEVER. */
enum address_kind address_kind(const struct sockaddr *address);
