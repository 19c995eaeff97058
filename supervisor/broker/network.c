/* Listeners of sandboxes on their way to the process that has the network. */
#include "supervisor/broker/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "rpc/egress-messages.h"
#include "supervisor/broker/egress-process.h"

/* Kept while the sandbox lives: the next process gets it too. */
struct listener {
        uint32_t target;
        int fd;
};

struct network {
        struct event_base *base;
        struct network_owner owner;
        int sockets[EGRESS_PROCESSES_MAX]; /* the first one is in use */
        size_t n_sockets;
        struct event *end; /* of the first one */
        bool expected;
        struct listener *listeners;
        size_t n, allocated;
};

const char *network_state(const struct network *network)
{
        return !network->expected ? "none" : network->n_sockets > 0 ? "running" : "ended";
}

static void close_listeners(struct network *network)
{
        for (size_t i = 0; i < network->n; i++)
                close(network->listeners[i].fd);
        network->n = 0;
}

static void drop_first(struct network *network)
{
        if (network->end)
                event_free(network->end);
        network->end = NULL;
        close(network->sockets[0]);
        network->n_sockets--;
        memmove(network->sockets, network->sockets + 1, network->n_sockets * sizeof(int));
}

static void on_end(evutil_socket_t fd, short what, void *data);

/* The process says once that it is ready. One that has ended while it waited is passed over. */
static void use_next(struct network *network)
{
        char ready;

        while (network->n_sockets > 0) {
                int fd = network->sockets[0];
                network->end = event_new(network->base, fd, EV_READ, on_end, network);
                if (recv(fd, &ready, 1, MSG_DONTWAIT) == 1 && network->end &&
                    event_add(network->end, NULL) == 0)
                        return;
                drop_first(network);
        }
        close_listeners(network);
        if (network->expected)
                log_error("the network of this server has ended: restart Cloister");
}

/* It sends nothing more: this is its end. */
static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct network *network = data;

        (void)fd;
        (void)what;
        drop_first(network);
        use_next(network);
        if (network->n_sockets > 0)
                log_warning(
                        "the process that has the network of sessions has ended: another one has taken over, %zu are left",
                        network->n_sockets - 1);
        network->owner.lost(network->owner.data);
}

int network_new(struct network **ret, struct event_base *base, const int *sockets, size_t n,
                bool expected, const struct network_owner *owner, struct error *err)
{
        struct network *network = calloc(1, sizeof(*network));

        if (!network)
                return error_errno(err, ENOMEM, "network");
        network->base = base;
        network->owner = *owner;
        network->expected = expected;
        network->n_sockets = n;
        memcpy(network->sockets, sockets, n * sizeof(int));
        use_next(network);
        *ret = network;
        return 0;
}

struct network *network_free(struct network *network)
{
        if (!network)
                return NULL;
        close_listeners(network);
        while (network->n_sockets > 0)
                drop_first(network);
        free(network->listeners);
        free(network);
        return NULL;
}

static struct listener *find(struct network *network, uint32_t target)
{
        for (size_t i = 0; i < network->n; i++)
                if (network->listeners[i].target == target)
                        return &network->listeners[i];
        return NULL;
}

void network_listener(struct network *network, uint32_t target, int listener)
{
        if (network->n_sockets == 0) {
                close(listener);
                return;
        }
        if (network->n == network->allocated) {
                size_t more = network->allocated ? network->allocated * 2 : 16;
                struct listener *grown = reallocarray(network->listeners, more, sizeof(*grown));
                if (!grown) {
                        log_error("the network of sandbox %u: no memory", target);
                        close(listener);
                        return;
                }
                network->listeners = grown;
                network->allocated = more;
        }
        network->listeners[network->n++] = (struct listener){target, listener};
}

int network_open(struct network *network, uint32_t target, int page, int leash, struct error *err)
{
        const struct egress_open open = {};
        const struct listener *listener = find(network, target);

        if (network->n_sockets == 0)
                return error_set(err, ENETDOWN, "no process that has it is left");
        if (!listener)
                return error_set(err, ENOTCONN, "there is no listener");
        const int fds[EGRESS_FDS] = {[EGRESS_FD_LISTENER] = listener->fd,
                                     [EGRESS_FD_PAGE] = page,
                                     [EGRESS_FD_LEASH] = leash};
        int r = fd_send(network->sockets[0], &open, sizeof(open), fds, EGRESS_FDS, MSG_DONTWAIT);
        /* It has just ended: lost() follows, and the session opens its network again. */
        if (r == -EPIPE || r == -ECONNRESET)
                return 0;
        return r < 0 ? error_errno(err, -r, "send to the process that has it") : 0;
}

void network_forget(struct network *network, uint32_t target)
{
        struct listener *listener = find(network, target);

        if (!listener)
                return;
        close(listener->fd);
        *listener = network->listeners[--network->n];
}
