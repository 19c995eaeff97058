/* Rules of a network that is allowed. */
#include "policy/network-rules.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- kinds of addresses ---- */

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

static const unsigned char nat64[12] = {0, 0x64, 0xff, 0x9b};

static bool is_nat64(const unsigned char *b)
{
        return memcmp(b, nat64, sizeof(nat64)) == 0;
}

static bool is_6to4(const unsigned char *b)
{
        return b[0] == 0x20 && b[1] == 0x02;
}

static enum address_kind kind_of_v6(const struct in6_addr *address)
{
        const unsigned char *b = address->s6_addr;

        if (IN6_IS_ADDR_LOOPBACK(address))
                return ADDRESS_LOOPBACK;
        if (IN6_IS_ADDR_V4MAPPED(address) || is_nat64(b))
                return kind_of_v4(embedded(b + 12));
        if (is_6to4(b))
                return kind_of_v4(embedded(b + 2));
        if ((b[0] & 0xfe) == 0xfc)
                return ADDRESS_PRIVATE;
        if (b[0] == 0x20 && b[1] == 0x01 && (b[2] < 2 || (b[2] == 0x0d && b[3] == 0xb8)))
                return ADDRESS_NEVER; /* 2001::/23: Teredo and other protocols; documentation */
        if (b[0] == 0x3f && b[1] == 0xff && (b[2] & 0xf0) == 0)
                return ADDRESS_NEVER; /* 3fff::/20, documentation */
        return (b[0] & 0xe0) == 0x20 ? ADDRESS_PUBLIC : ADDRESS_NEVER;
}

static enum address_kind kind_of(const struct network_host *host)
{
        struct in6_addr v6;

        memcpy(&v6, host->address, sizeof(v6));
        return host->kind == NETWORK_V4 ? kind_of_v4(embedded(host->address)) : kind_of_v6(&v6);
}

static bool is_translated(const struct network_host *host)
{
        struct in6_addr v6;

        memcpy(&v6, host->address, sizeof(v6));
        bool is_compatible = IN6_IS_ADDR_V4COMPAT(&v6);
        return host->kind == NETWORK_V6 &&
               (IN6_IS_ADDR_V4MAPPED(&v6) || is_compatible || is_6to4(v6.s6_addr) ||
                memcmp(v6.s6_addr, nat64, 4) == 0);
}

/* False: of another family. */
static bool take_address(const struct sockaddr *address, struct network_host *ret)
{
        const char *bytes = (const char *)address;

        *ret = (struct network_host){.kind = NETWORK_V6};
        if (address->sa_family == AF_INET) {
                ret->kind = NETWORK_V4;
                memcpy(ret->address, bytes + offsetof(struct sockaddr_in, sin_addr), 4);
        } else if (address->sa_family == AF_INET6) {
                memcpy(ret->address, bytes + offsetof(struct sockaddr_in6, sin6_addr), 16);
        } else {
                return false;
        }
        return true;
}

enum address_kind address_kind(const struct sockaddr *address)
{
        struct network_host host;

        return take_address(address, &host) ? kind_of(&host) : ADDRESS_NEVER;
}

/* Whether it is an IPv6 address that contains an IPv4 address: mapped, compatible, NAT64, 6to4. */
static bool address_is_translated(const struct sockaddr *address)
{
        struct network_host host;

        return take_address(address, &host) && is_translated(&host);
}

/* ---- hosts ---- */

enum { LABEL_MAX = 63 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";

/* Whether the last label could be read as a number by inet_aton(3) or by the URL standard. */
static bool ends_in_number(const char *name)
{
        const char *last = strrchr(name, '.');

        last = last ? last + 1 : name;
        if (strspn(last, "0123456789") == strlen(last))
                return true;
        return last[0] == '0' && last[1] == 'x' &&
               strspn(last + 2, "0123456789abcdef") == strlen(last + 2);
}

static bool is_name(const char *name)
{
        const char *at = name;

        for (;;) {
                size_t n = strspn(at, letters);
                if (n == 0 || n > LABEL_MAX || at[0] == '-' || at[n - 1] == '-')
                        return false;
                at += n;
                if (*at == '\0')
                        return !ends_in_number(name);
                if (*at++ != '.')
                        return false;
        }
}

static bool parse_v6(const char *text, size_t n, struct network_host *ret)
{
        char inner[INET6_ADDRSTRLEN];

        if (n < 4 || text[n - 1] != ']' || n - 2 >= sizeof(inner))
                return false;
        memcpy(inner, text + 1, n - 2);
        inner[n - 2] = '\0';
        if (strspn(inner, "0123456789abcdefABCDEF:.") != n - 2 ||
            inet_pton(AF_INET6, inner, ret->address) != 1)
                return false;
        ret->kind = NETWORK_V6;
        return inet_ntop(AF_INET6, ret->address, ret->text, sizeof(ret->text));
}

bool network_host_parse(const char *text, size_t n, struct network_host *ret)
{
        *ret = (struct network_host){};
        if (n > 0 && text[0] == '[')
                return parse_v6(text, n, ret);
        if (n > 1 && text[n - 1] == '.')
                n--;
        if (n == 0 || n > NETWORK_NAME_MAX || memchr(text, '\0', n))
                return false;
        for (size_t i = 0; i < n; i++)
                ret->text[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
        if (inet_pton(AF_INET, ret->text, ret->address) == 1) {
                ret->kind = NETWORK_V4;
                return true;
        }
        return is_name(ret->text);
}

static bool parse_number(const char *text, size_t n, unsigned most, unsigned *ret)
{
        unsigned value = 0;

        if (n == 0 || n > 5)
                return false;
        for (size_t i = 0; i < n; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return false;
                value = value * 10 + (unsigned)(text[i] - '0');
        }
        *ret = value;
        return value <= most;
}

static bool parse_port(const char *text, size_t n, uint16_t *ret)
{
        unsigned port = 0;

        if (!parse_number(text, n, UINT16_MAX, &port) || text[0] == '0')
                return false;
        *ret = (uint16_t)port;
        return true;
}

/* The colon before the port, or NULL. */
static const char *find_port(const char *text, size_t n)
{
        const char *from = text;

        if (n > 0 && text[0] == '[') {
                from = memchr(text, ']', n);
                if (!from)
                        return NULL;
        }
        return memchr(from, ':', n - (size_t)(from - text));
}

bool network_authority_parse(const char *text, size_t n, uint16_t otherwise,
                             struct network_host *host, uint16_t *port)
{
        const char *colon = find_port(text, n);
        size_t length = colon ? (size_t)(colon - text) : n;

        *port = otherwise;
        if (colon && !parse_port(colon + 1, n - length - 1, port))
                return false;
        return *port != 0 && network_host_parse(text, length, host);
}

/* ---- rules ---- */

static const char *why_not_address(const struct network_rule *rule)
{
        unsigned whole = rule->host.kind == NETWORK_V4 ? 32 : 128;
        enum address_kind kind = kind_of(&rule->host);

        if (is_translated(&rule->host))
                return "contains an IPv4 address: write that one";
        if (kind == ADDRESS_NEVER)
                return "is an address that is never reached (link-local, metadata, multicast, documentation)";
        if (rule->bits < (rule->host.kind == NETWORK_V4 ? 8 : 16))
                return "contains too many addresses: at least /8, of IPv6 /16";
        if ((kind != ADDRESS_PUBLIC || rule->bits < whole) && rule->port == 0)
                return "is not a single public address, and needs a port";
        return NULL;
}

static const char *why_not_name(const char *text)
{
        for (const char *at = text; *at; at++) {
                if ((unsigned char)*at >= 0x80)
                        return "must be written in ASCII: names of other alphabets as punycode (xn--…)";
                if (*at == '*')
                        return "may have a * only as its first label, as in *.example.org";
        }
        if (strstr(text, "://") || strchr(text, '/'))
                return "must be a host, or host:port, not a URL";
        return "must be host or host:port, as in api.example.com:443, *.example.org, 10.0.0.5:5432, [fd00::5]:443";
}

const char *network_rule_parse(const char *text, struct network_rule *ret)
{
        const char *at = text;
        size_t n = strlen(text);

        *ret = (struct network_rule){};
        if (n > NETWORK_RULE_MAX)
                return "is too long";
        ret->below = strncmp(text, "*.", 2) == 0;
        at += ret->below ? 2 : 0;
        const char *colon = find_port(at, strlen(at));
        size_t length = colon ? (size_t)(colon - at) : strlen(at);
        if (colon && !parse_port(colon + 1, strlen(colon + 1), &ret->port))
                return why_not_name(text);
        const char *slash = memchr(at, '/', length);
        size_t host = slash ? (size_t)(slash - at) : length;
        if (!network_host_parse(at, host, &ret->host))
                return why_not_name(text);
        if (ret->host.kind == NETWORK_NAME) {
                if (slash)
                        return why_not_name(text);
                if (ret->below && !strchr(ret->host.text, '.'))
                        return "must name at least two labels after the *, as in *.example.org";
                return NULL;
        }
        ret->bits = ret->host.kind == NETWORK_V4 ? 32 : 128;
        if (ret->below ||
            (slash && !parse_number(slash + 1, length - host - 1, ret->bits, &ret->bits)))
                return why_not_name(text);
        return why_not_address(ret);
}

bool network_host_equal(const struct network_host *a, const struct network_host *b)
{
        return a->kind == b->kind && strcmp(a->text, b->text) == 0;
}

static bool has_port(const struct network_rule *rule, uint16_t port)
{
        return rule->port ? rule->port == port
                          : port == NETWORK_PORT_TLS || port == NETWORK_PORT_HTTP;
}

static bool contains(const struct network_rule *rule, enum network_host_kind kind,
                     const unsigned char *address)
{
        unsigned whole = rule->bits / 8, rest = rule->bits % 8;

        if (rule->host.kind != kind || memcmp(rule->host.address, address, whole) != 0)
                return false;
        return rest == 0 || (rule->host.address[whole] ^ address[whole]) >> (8 - rest) == 0;
}

static bool names(const struct network_rule *rule, const struct network_host *host)
{
        size_t n = strlen(host->text), below = strlen(rule->host.text);

        if (host->kind != NETWORK_NAME)
                return contains(rule, host->kind, host->address);
        if (rule->host.kind != NETWORK_NAME)
                return false;
        if (!rule->below)
                return strcmp(rule->host.text, host->text) == 0;
        return n > below + 1 && host->text[n - below - 1] == '.' &&
               strcmp(host->text + n - below, rule->host.text) == 0;
}

bool network_rules_name(const struct network_rule *rules, size_t n, const struct network_host *host,
                        uint16_t port)
{
        for (size_t i = 0; i < n; i++)
                if (has_port(&rules[i], port) && names(&rules[i], host))
                        return true;
        return false;
}

bool network_rules_contain(const struct network_rule *rules, size_t n,
                           const struct sockaddr *address, uint16_t port)
{
        struct network_host host;

        if (!take_address(address, &host))
                return false;
        for (size_t i = 0; i < n; i++)
                if (has_port(&rules[i], port) && rules[i].host.kind != NETWORK_NAME &&
                    contains(&rules[i], host.kind, host.address))
                        return true;
        return false;
}

bool network_rules_reach(const struct network_rule *rules, size_t n, const struct sockaddr *address,
                         uint16_t port)
{
        enum address_kind kind = address_kind(address);

        if (kind == ADDRESS_NEVER || address_is_translated(address))
                return false;
        return kind == ADDRESS_PUBLIC || network_rules_contain(rules, n, address, port);
}
