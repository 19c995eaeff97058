/* The sockets that a guest may create, and the options that it may set. */
#include "policy/seccomp/rules-sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define OPTION(level, option) RULE("setsockopt", ALLOW, EQUAL(1, level), EQUAL(2, option))

/* TCP and UDP, of both internet families. */
/* clang-format off */
#define INTERNET(family) \
        SOCKET(family, SOCK_STREAM, 0), \
        SOCKET(family, SOCK_STREAM, IPPROTO_TCP), \
        SOCKET(family, SOCK_DGRAM, 0), \
        SOCKET(family, SOCK_DGRAM, IPPROTO_UDP)
/* clang-format on */

/* AF_UNIX, protocol 0, of its three types. Other families up to 63 get EPERM, by the bits in which
 * they differ from AF_UNIX. */
const struct filter_rule filter_sockets_unix[] = {
        SOCKET(AF_UNIX, SOCK_STREAM, 0),
        SOCKET(AF_UNIX, SOCK_DGRAM, 0),
        SOCKET(AF_UNIX, SOCK_SEQPACKET, 0),
        {"socket", FAIL(EPERM), {CLEAR(0, 1)}},
        {"socket", FAIL(EPERM), {SET(0, 2)}},
        {"socket", FAIL(EPERM), {SET(0, 4)}},
        {"socket", FAIL(EPERM), {SET(0, 8)}},
        {"socket", FAIL(EPERM), {SET(0, 16)}},
        {"socket", FAIL(EPERM), {SET(0, 32)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX)}},
        END_OF_RULES,
};

/* EPERM for all families up to 63 but 1 (unix), 2 (inet) and 10 (inet6). */
const struct filter_rule filter_sockets_loopback[] = {
        SOCKET(AF_UNIX, SOCK_STREAM, 0),
        SOCKET(AF_UNIX, SOCK_DGRAM, 0),
        SOCKET(AF_UNIX, SOCK_SEQPACKET, 0),
        INTERNET(AF_INET),
        INTERNET(AF_INET6),
        {"socket", FAIL(EPERM), {EQUAL(0, 0)}},
        {"socket", FAIL(EPERM), {MASKED(0, 3, 3)}},
        {"socket", FAIL(EPERM), {MASKED(0, 8 | 2, 8)}},
        {"socket", FAIL(EPERM), {SET(0, 4)}},
        {"socket", FAIL(EPERM), {SET(0, 16)}},
        {"socket", FAIL(EPERM), {SET(0, 32)}},
        {"socket", FAIL(EPERM), {EQUAL(0, AF_INET), MASKED(1, 0xf, SOCK_RAW)}},
        {"socket", FAIL(EPERM), {EQUAL(0, AF_INET6), MASKED(1, 0xf, SOCK_RAW)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX)}},
        END_OF_RULES,
};

/* Datagram sockets of a pair could send to any name in a mounted directory; those of the other two
 * types cannot be connected again. */
const struct filter_rule filter_sockets_pairs[] = {
        {"socket", FAIL(EPERM)},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_SEQPACKET)}},
        END_OF_RULES,
};

const struct filter_rule filter_sockets_loopback_pairs[] = {
        INTERNET(AF_INET),
        INTERNET(AF_INET6),
        {"socket", FAIL(EPERM), {SET(0, 1)}},
        {"socket", FAIL(EPERM), {CLEAR(0, 2)}},
        {"socket", FAIL(EPERM), {SET(0, 4)}},
        {"socket", FAIL(EPERM), {SET(0, 16)}},
        {"socket", FAIL(EPERM), {SET(0, 32)}},
        {"socket", FAIL(EPERM), {EQUAL(0, AF_INET), MASKED(1, 0xf, SOCK_RAW)}},
        {"socket", FAIL(EPERM), {EQUAL(0, AF_INET6), MASKED(1, 0xf, SOCK_RAW)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_STREAM)}},
        {"socketpair", ALLOW, {EQUAL(0, AF_UNIX), MASKED(1, 0xf, SOCK_SEQPACKET)}},
        END_OF_RULES,
};

/* As (level, option). Among those left out: TCP_ULP, SO_ZEROCOPY, SO_ATTACH_FILTER, IP_MSFILTER,
 * packet and netfilter options. */
const struct filter_rule filter_socket_options[] = {
        OPTION(SOL_SOCKET, SO_REUSEADDR),
        OPTION(SOL_SOCKET, SO_REUSEPORT),
        OPTION(SOL_SOCKET, SO_BROADCAST),
        OPTION(SOL_SOCKET, SO_SNDBUF),
        OPTION(SOL_SOCKET, SO_RCVBUF),
        OPTION(SOL_SOCKET, SO_RCVLOWAT),
        OPTION(SOL_SOCKET, SO_KEEPALIVE),
        OPTION(SOL_SOCKET, SO_LINGER),
        OPTION(SOL_SOCKET, SO_PASSCRED),
        OPTION(SOL_SOCKET, SO_TIMESTAMP_OLD),
        OPTION(SOL_SOCKET, SO_RCVTIMEO_OLD),
        OPTION(SOL_SOCKET, SO_SNDTIMEO_OLD),
        OPTION(SOL_SOCKET, SO_RCVTIMEO_NEW),
        OPTION(SOL_SOCKET, SO_SNDTIMEO_NEW),
        OPTION(IPPROTO_TCP, TCP_NODELAY),
        OPTION(IPPROTO_TCP, TCP_CORK),
        OPTION(IPPROTO_TCP, TCP_KEEPIDLE),
        OPTION(IPPROTO_TCP, TCP_KEEPINTVL),
        OPTION(IPPROTO_TCP, TCP_KEEPCNT),
        OPTION(IPPROTO_TCP, TCP_QUICKACK),
        OPTION(IPPROTO_TCP, TCP_USER_TIMEOUT),
        OPTION(IPPROTO_IP, IP_TOS),
        OPTION(IPPROTO_IP, IP_TTL),
        OPTION(IPPROTO_IP, IP_MTU_DISCOVER),
        OPTION(IPPROTO_IP, IP_RECVERR), /* the resolver of glibc */
        OPTION(IPPROTO_IPV6, IPV6_V6ONLY),
        OPTION(IPPROTO_IPV6, IPV6_TCLASS),
        OPTION(IPPROTO_IPV6, IPV6_RECVERR),
        END_OF_RULES,
};
