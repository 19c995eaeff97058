/* Verifies what network a sandbox has. */
#include "supervisor/monitor/template/network-check.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/process/child.h"

enum { TIMEOUT_S = 1 };

/*
 * What the kernel puts into every new network namespace where these modules are loaded on the host
 * (net.core.fb_tunnels_only_for_init_net): they lead nowhere, and up they are an offence like any
 * other.
 */
static bool is_fallback_tunnel(struct rtnl_link *link)
{
        static const char *const kinds[] = {"sit",    "ipip",   "ip6tnl", "gre", "gretap",
                                            "erspan", "ip6gre", "vti",    "vti6"};
        const char *kind = rtnl_link_get_type(link);

        for (size_t i = 0; kind && i < ARRAY_SIZE(kinds); i++) {
                if (strcmp(kind, kinds[i]) == 0)
                        return true;
        }
        return false;
}

/* What was found. */
struct found {
        enum config_network network;
        int lo; /* the index of the loopback interface */
};

static int check_link(struct rtnl_link *link, struct found *found, struct error *err)
{
        const char *name = rtnl_link_get_name(link);
        unsigned flags = rtnl_link_get_flags(link);
        bool is_lo = flags & IFF_LOOPBACK;

        if (is_lo)
                found->lo = rtnl_link_get_ifindex(link);
        else if (!is_fallback_tunnel(link))
                return error_set(err, EISCONN, "the sandbox has a network interface, %s",
                                 name ? name : "(no name)");
        bool up = flags & IFF_UP, wanted = is_lo && found->network == CONFIG_NETWORK_LOOPBACK;
        if (up && !wanted)
                return error_set(err, EISCONN, "the sandbox's interface %s is up",
                                 name ? name : "(no name)");
        if (wanted && !up)
                return error_set(err, ENETDOWN, "the sandbox's loopback interface is down");
        return 0;
}

static int check_links(struct nl_sock *socket, struct found *found, struct error *err)
{
        struct nl_cache *cache;
        int r = rtnl_link_alloc_cache(socket, AF_UNSPEC, &cache);

        if (r < 0)
                return error_set(err, EIO, "netlink: %s", nl_geterror(r));
        r = 0;
        for (struct nl_object *o = nl_cache_get_first(cache); o && r == 0; o = nl_cache_get_next(o))
                r = check_link((struct rtnl_link *)o, found, err);
        if (r == 0 && found->lo == 0)
                r = error_set(err, EIO, "netlink: no loopback interface");
        nl_cache_free(cache);
        return r;
}

/* Every way it knows ends on lo. */
static bool stays_here(struct rtnl_route *route, const struct found *found)
{
        for (int i = 0; i < rtnl_route_get_nnexthops(route); i++) {
                struct rtnl_nexthop *hop = rtnl_route_nexthop_n(route, i);
                if (rtnl_route_nh_get_ifindex(hop) != found->lo || rtnl_route_nh_get_gateway(hop))
                        return false;
        }
        return true;
}

static int check_routes(struct nl_sock *socket, const struct found *found, struct error *err)
{
        struct nl_cache *cache;
        int r = rtnl_route_alloc_cache(socket, AF_UNSPEC, 0, &cache), away = 0;

        if (r < 0)
                return error_set(err, EIO, "netlink: %s", nl_geterror(r));
        for (struct nl_object *o = nl_cache_get_first(cache); o; o = nl_cache_get_next(o)) {
                away += found->network == CONFIG_NETWORK_NONE ||
                        !stays_here((struct rtnl_route *)o, found);
        }
        nl_cache_free(cache);
        return away == 0 ? 0 : error_set(err, EISCONN, "the sandbox has %d network routes", away);
}

static int check_here(enum config_network network, struct error *err)
{
        struct found found = {.network = network};
        struct nl_sock *socket = nl_socket_alloc();

        if (!socket)
                return error_errno(err, ENOMEM, "netlink");
        int r = nl_connect(socket, NETLINK_ROUTE);
        r = r < 0 ? error_set(err, EIO, "netlink: %s", nl_geterror(r))
                  : check_links(socket, &found, err);
        if (r >= 0)
                r = check_routes(socket, &found, err);
        nl_socket_free(socket);
        return r;
}

_Noreturn static void run(int target, enum config_network network, int report)
{
        const int keep[] = {target, report};
        struct error error = {0};

        child_close_all_but(keep, ARRAY_SIZE(keep));
        child_reset_signals();
        alarm(TIMEOUT_S);
        if (setns(target, CLONE_NEWUSER | CLONE_NEWNET) < 0)
                error_errno(&error, errno, "join the sandbox's network namespace");
        else
                check_here(network, &error);
        fd_write_all(report, &error, sizeof(error));
        _exit(0);
}

int network_check(pid_t pid, enum config_network network, struct error *err)
{
        _cleanup_close_ int target = pidfd_open(pid, 0);
        _cleanup_close_ int read_end = -1, write_end = -1;
        struct error found;
        int ends[2];

        if (target < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "network check");
        read_end = ends[0];
        write_end = ends[1];
        pid_t child = fork();
        if (child < 0)
                return error_errno(err, errno, "network check: fork");
        if (child == 0)
                run(target, network, write_end);
        close(take_fd(write_end));
        ssize_t n = fd_read_full(read_end, &found, sizeof(found));
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
                ;
        if (n != (ssize_t)sizeof(found))
                return error_set(err, ETIMEDOUT, "network check: no answer within %d s", TIMEOUT_S);
        if (found.code == 0)
                return 0;
        error_sanitize(&found);
        if (err)
                *err = found;
        return -found.code;
}
