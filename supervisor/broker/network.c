/* Listeners of sandboxes on their way to the process that has the network. */
#include "supervisor/broker/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "rpc/egress-messages.h"

/* Kept while the sandbox lives: the next process gets it too. */
struct listener {
        uint32_t target;
        int fd;
};

struct network {
        struct event_base *base;
        struct network_owner owner;
        struct egress_process processes[EGRESS_PROCESSES_MAX]; /* the first one is in use */
        size_t n_processes;
        struct event *answers; /* of the first one, and its end */
        struct event *tick;
        bool is_asked; /* whether it runs */
        int missed;    /* ticks since */
        bool expected;
        struct listener *listeners;
        size_t n, allocated;
};

const char *network_state(const struct network *network)
{
        return !network->expected ? "none" : network->n_processes > 0 ? "running" : "ended";
}

static void close_listeners(struct network *network)
{
        for (size_t i = 0; i < network->n; i++)
                close(network->listeners[i].fd);
        network->n = 0;
}

static void drop_first(struct network *network)
{
        if (network->answers)
                event_free(network->answers);
        network->answers = NULL;
        network->is_asked = false;
        egress_process_end(&network->processes[0]);
        network->n_processes--;
        memmove(network->processes, network->processes + 1,
                network->n_processes * sizeof(network->processes[0]));
}

static void on_answer(evutil_socket_t fd, short what, void *data);

/* The process says once that it is ready. One that has ended while it waited is passed over. */
static void use_next(struct network *network)
{
        char ready;

        while (network->n_processes > 0) {
                int fd = network->processes[0].socket;
                network->answers = event_new(network->base, fd, EV_READ | EV_PERSIST, on_answer,
                                             network);
                if (recv(fd, &ready, 1, MSG_DONTWAIT) == 1 && network->answers &&
                    event_add(network->answers, NULL) == 0)
                        return;
                drop_first(network);
        }
        close_listeners(network);
        if (network->expected)
                log_error("the network of this server has ended: restart Cloister");
}

/* why: what it has done. */
static void end_first(struct network *network, const char *why)
{
        drop_first(network);
        use_next(network);
        if (network->n_processes > 0)
                log_warning(
                        "the process that has the network of sessions %s: another one has taken over, %zu are left",
                        why, network->n_processes - 1);
        else
                log_warning("the process that has the network of sessions %s", why);
        network->owner.lost(network->owner.data);
}

/* The process sends only its answers to the question whether it runs. */
static void on_answer(evutil_socket_t fd, short what, void *data)
{
        struct network *network = data;
        char answer;

        ssize_t n = recv(fd, &answer, 1, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
                return;
        if (n == 1 && network->is_asked)
                network->is_asked = false;
        else
                end_first(network, n == 1 ? "sent a message without a request" : "has ended");
}

static void arm(struct network *network)
{
        struct timeval after = clock_timeval_ms(NETWORK_ASK_MS);

        if (network->n > 0 && network->n_processes > 0)
                event_add(network->tick, &after);
}

/* If it takes no more messages, it does not answer either. */
static void ask(struct network *network)
{
        const struct egress_open question = {};

        fd_send(network->processes[0].socket, &question, sizeof(question), NULL, 0, MSG_DONTWAIT);
        network->is_asked = true;
        network->missed = 0;
}

/* Ticks are counted, and not the time: while this process does not run, the other one need not run either. */
static void on_tick(evutil_socket_t fd, short what, void *data)
{
        struct network *network = data;

        if (network->n_processes == 0 || network->n == 0)
                return;
        if (!network->is_asked)
                ask(network);
        else if (++network->missed == NETWORK_MISSED_MAX)
                end_first(network, "did not answer, and was killed");
        arm(network);
}

int network_new(struct network **ret, struct event_base *base,
                const struct egress_process *processes, size_t n, bool expected,
                const struct network_owner *owner, struct error *err)
{
        struct network *network = calloc(1, sizeof(*network));

        if (network)
                network->tick = evtimer_new(base, on_tick, network);
        if (!network || !network->tick) {
                free(network);
                return error_errno(err, ENOMEM, "network");
        }
        network->base = base;
        network->owner = *owner;
        network->expected = expected;
        network->n_processes = n;
        memcpy(network->processes, processes, n * sizeof(processes[0]));
        use_next(network);
        *ret = network;
        return 0;
}

struct network *network_free(struct network *network)
{
        if (!network)
                return NULL;
        close_listeners(network);
        while (network->n_processes > 0)
                drop_first(network);
        event_free(network->tick);
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
        if (network->n_processes == 0) {
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
        if (!event_pending(network->tick, EV_TIMEOUT, NULL))
                arm(network);
}

int network_open(struct network *network, uint32_t target, int page, int leash, struct error *err)
{
        const struct egress_open open = {};
        const struct listener *listener = find(network, target);

        if (network->n_processes == 0)
                return error_set(err, ENETDOWN, "no process that has it is left");
        if (!listener)
                return error_set(err, ENOTCONN, "there is no listener");
        const int fds[EGRESS_FDS] = {[EGRESS_FD_LISTENER] = listener->fd,
                                     [EGRESS_FD_PAGE] = page,
                                     [EGRESS_FD_LEASH] = leash};
        int r = fd_send(network->processes[0].socket, &open, sizeof(open), fds, EGRESS_FDS,
                        MSG_DONTWAIT);
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
