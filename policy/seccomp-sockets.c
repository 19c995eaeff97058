/* Socket options that may be set, as (level, option). Among those left out: TCP_ULP, SO_ZEROCOPY,
 * SO_ATTACH_FILTER, IP_MSFILTER, packet and netfilter options. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "policy/seccomp-parts.h"

#define OPTION(level, option) RULE("setsockopt", ALLOW, EQUAL(1, level), EQUAL(2, option))

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
