/* Verifies that a sandbox has no network. */
#include "supervisor/monitor/network-check.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/route.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/child.h"

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

static int check_link(struct rtnl_link *link, struct error *err)
{
        const char *name = rtnl_link_get_name(link);
        unsigned flags = rtnl_link_get_flags(link);

        if (!(flags & IFF_LOOPBACK) && !is_fallback_tunnel(link))
                return error_set(err, EISCONN, "the sandbox has a network interface, %s",
                                 name ? name : "(no name)");
        if (flags & IFF_UP)
                return error_set(err, EISCONN, "the sandbox's interface %s is up",
                                 name ? name : "(no name)");
        return 0;
}

static int check_links(struct nl_sock *socket, struct error *err)
{
        struct nl_cache *cache;
        int r = rtnl_link_alloc_cache(socket, AF_UNSPEC, &cache);

        if (r < 0)
                return error_set(err, EIO, "netlink: %s", nl_geterror(r));
        r = 0;
        for (struct nl_object *o = nl_cache_get_first(cache); o && r == 0; o = nl_cache_get_next(o))
                r = check_link((struct rtnl_link *)o, err);
        if (r == 0 && nl_cache_nitems(cache) == 0)
                r = error_set(err, EIO, "netlink: no interface at all, not even lo");
        nl_cache_free(cache);
        return r;
}

static int check_routes(struct nl_sock *socket, struct error *err)
{
        struct nl_cache *cache;
        int r = rtnl_route_alloc_cache(socket, AF_UNSPEC, 0, &cache);

        if (r < 0)
                return error_set(err, EIO, "netlink: %s", nl_geterror(r));
        int count = nl_cache_nitems(cache);
        nl_cache_free(cache);
        return count == 0 ? 0 : error_set(err, EISCONN, "the sandbox has %d network routes", count);
}

static int check_here(struct error *err)
{
        struct nl_sock *socket = nl_socket_alloc();

        if (!socket)
                return error_errno(err, ENOMEM, "netlink");
        int r = nl_connect(socket, NETLINK_ROUTE);
        r = r < 0 ? error_set(err, EIO, "netlink: %s", nl_geterror(r)) : check_links(socket, err);
        if (r >= 0)
                r = check_routes(socket, err);
        nl_socket_free(socket);
        return r;
}

_Noreturn static void run(int target, int report)
{
        const int keep[] = {target, report};
        struct error error = {0};

        child_close_all_but(keep, ARRAY_SIZE(keep));
        child_reset_signals();
        alarm(TIMEOUT_S);
        if (setns(target, CLONE_NEWUSER | CLONE_NEWNET) < 0)
                error_errno(&error, errno, "join the sandbox's network namespace");
        else
                check_here(&error);
        fd_write_all(report, &error, sizeof(error));
        _exit(0);
}

int network_check(pid_t pid, struct error *err)
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
                run(target, write_end);
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
