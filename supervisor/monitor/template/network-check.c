/* Verifies what network a sandbox has. */
#include "supervisor/monitor/template/network-check.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "rpc/egress-messages.h"

enum {
        TIMEOUT_MS =
                5000,  /* it takes less than one, but not on a machine with far too much to do */
        BACKLOG = 128, /* connections that the proxy has not accepted yet */
};

struct network_check {
        struct child_task *task;
        int target; /* pidfd of the sandbox's PID 1 */
        enum config_network network;
        network_check_done *done;
        void *data;
};

/*
 * The kernel puts these into every new network namespace when their modules are loaded on the host
 * (net.core.fb_tunnels_only_for_init_net). They lead nowhere while they are down; one that is up is
 * refused like any other interface.
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
        bool up = flags & IFF_UP, wanted = is_lo && found->network != CONFIG_NETWORK_NONE;
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

/* Whether all its next hops are on lo. */
static bool stays_on_loopback(struct rtnl_route *route, const struct found *found)
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
                        !stays_on_loopback((struct rtnl_route *)o, found);
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

/* The child makes it, so that the sandbox never has its descriptor, and none comes from a sandbox. */
static int listen_here(struct error *err)
{
        const struct sockaddr_in address = {.sin_family = AF_INET,
                                            .sin_port = htons(EGRESS_PORT),
                                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "the proxy's socket");
        if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            listen(fd, BACKLOG) < 0)
                return error_errno(err, errno, "listen on port %d of the sandbox, for the proxy",
                                   EGRESS_PORT);
        return take_fd(fd);
}

static size_t run(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        const struct network_check *check = argument;
        struct error *error = reply;

        if (setns(check->target, CLONE_NEWUSER | CLONE_NEWNET) < 0) {
                error_errno(error, errno, "join the sandbox's network namespace");
                return 0;
        }
        if (check_here(check->network, error) < 0 || check->network != CONFIG_NETWORK_ALLOW)
                return 0;
        fds[0] = listen_here(error);
        return fds[0] < 0 ? 0 : 1;
}

static void check_free(struct network_check *check)
{
        if (check->target >= 0)
                close(check->target);
        free(check);
}

static void on_answer(void *data, const struct error *error, void *reply, int fds[CHILD_TASK_FDS],
                      size_t n_fds)
{
        struct network_check *check = data;
        struct error found = error ? *error : *(struct error *)reply;

        bool has_listener = n_fds == 1 && check->network == CONFIG_NETWORK_ALLOW;
        error_sanitize(&found);
        if (!error_is_set(&found) && check->network == CONFIG_NETWORK_ALLOW && !has_listener)
                error_set(&found, EPROTO, "the check gave no listener");
        check->done(check->data, error_is_set(&found) ? &found : NULL,
                    has_listener && !error_is_set(&found) ? take_fd(fds[0]) : -1);
        check_free(check);
}

int network_check_start(struct child_tasks *tasks, pid_t pid, enum config_network network,
                        network_check_done *done, void *data, struct network_check **ret,
                        struct error *err)
{
        struct network_check *check = calloc(1, sizeof(*check));

        if (!check)
                return error_errno(err, ENOMEM, "network check");
        *check = (struct network_check){
                .target = pidfd_open(pid, 0), .network = network, .done = done, .data = data};
        struct child_task_spec spec = {.name = "network check",
                                       .keep = {check->target},
                                       .n_keep = 1,
                                       .reply_size = sizeof(struct error),
                                       .timeout_ms = TIMEOUT_MS,
                                       .run = run,
                                       .argument = check};
        int r = check->target < 0
                        ? error_errno(err, errno, "network check")
                        : child_task_start(tasks, &spec, on_answer, check, &check->task, err);
        if (r < 0) {
                check_free(check);
                return r;
        }
        *ret = check;
        return 0;
}

struct network_check *network_check_cancel(struct network_check *check)
{
        if (check) {
                child_task_cancel(check->task);
                check_free(check);
        }
        return NULL;
}
