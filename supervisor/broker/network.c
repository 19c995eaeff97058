/*
 * Listeners of sandboxes on their way to the process that has the network, and the start of these processes.
 *
 * Theory of operation. Each is forked first of all, so that its memory holds no part of the config: no credentials, no
 * names of servers. It takes a mount namespace of its own, whose root has /etc and the directory of resolv.conf,
 * read-only, and then gives up what the broker gives up, in the same order (isolate.c). It keeps the host's network
 * namespace, which the broker has too, but cannot use.
 *
 * The broker's Landlock domain has no right to signal a process that was forked before. So each process arranges its
 * own end: a pipe sends it SIGKILL when something happens to its other end, which the broker has (F_SETSIG in fcntl(2)).
 * The kernel does that, whatever the process is doing, also while it is stopped.
 */
#include "supervisor/broker/network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/log.h"
#include "rpc/egress-messages.h"
#include "supervisor/egress/egress.h"

/* ---- the processes ---- */

/* Where the child has its descriptors: standard input and output are the client's. */
enum { SOCKET_FD, FILTER_FD, ERROR_FD, END_FD, FDS };

static const struct landlock_rule landlock_rules[] = {
        {"/", LANDLOCK_READ},
};

/* Of glibc's resolver, resolv.conf(5): names are absolute, and a name server that is silent is given up soon. */
static void limit_resolver(void)
{
        setenv("LOCALDOMAIN", ".", 1);
        setenv("RES_OPTIONS", "timeout:2 attempts:2", 1);
}

/* The kernel takes uid and Landlock domain of this moment for those of the signal's sender. */
static bool end_with(int pipe)
{
        return fcntl(pipe, F_SETSIG, SIGKILL) >= 0 && fcntl(pipe, F_SETOWN, getpid()) >= 0 &&
               fcntl(pipe, F_SETFL, O_ASYNC) >= 0;
}

static int confine(const struct isolation *how, int filter, struct error *err)
{
        struct error hint = {};

        isolate_limits();
        int r = isolate_become(how, err);
        if (r >= 0 && !end_with(END_FD))
                r = error_errno(err, errno, "a pipe that ends it");
        if (r >= 0 && unshare(CLONE_NEWNS) < 0)
                r = error_errno(err, errno, "a mount namespace");
        if (r >= 0)
                r = isolate_root(NULL, ROOT_NAMES, err);
        if (r < 0)
                return r;
        r = capabilities_drop(err);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_errno(err, errno, "give up privileges");
        if (landlock_confine(landlock_rules, ARRAY_SIZE(landlock_rules), true, &hint) < 0)
                log_info("without Landlock: %s", hint.text);
        return filter_load(filter, err);
}

static _Noreturn void run(const struct isolation *how, int socket, int end, int log)
{
        /* Standard error stays, and becomes the log if there is one. */
        int fds[FDS] = {socket, how->filter_fd, log < 0 ? STDERR_FILENO : log, end};
        struct error error = {};

        prctl(PR_SET_NAME, "cloister-egress");
        if (fd_arrange(fds, FDS) < 0)
                _exit(1);
        log_to(ERROR_FD, log_get_format());
        limit_resolver();
        if (confine(how, FILTER_FD, &error) < 0) {
                log_error("the network of sessions: %s", error.text);
                _exit(1);
        }
        close(FILTER_FD);
        if (write(SOCKET_FD, "", 1) == 1)
                egress_serve(SOCKET_FD);
        _exit(0);
}

/* Kills it, whatever it does, and closes both. */
static void egress_process_end(struct egress_process *process)
{
        if (process->end >= 0)
                (void)!write(process->end, "", 1);
        fd_close_many(&process->end, 1);
        fd_close_many(&process->socket, 1);
}

static int start_one(const struct isolation *how, int log_fd, struct egress_process *ret,
                     struct error *err)
{
        enum { OURS, ITS };
        int pair[2] = {-1, -1}, end[2] = {-1, -1};

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
            pipe2(end, O_CLOEXEC) < 0) {
                int r = error_errno(err, errno, "the network of sessions: a socket and a pipe");
                fd_close_many(pair, 2);
                return r;
        }
        pid_t pid = fork();
        if (pid == 0)
                run(how, pair[ITS], end[0], log_fd);
        int code = errno;
        close(pair[ITS]);
        close(end[0]);
        *ret = (struct egress_process){.socket = pair[OURS], .end = end[1]};
        if (pid < 0) {
                egress_process_end(ret);
                return error_errno(err, code, "the network of sessions: fork");
        }
        fd_refuse_rights(ret->socket);
        return 0;
}

int egress_processes_start(const struct isolation *how, int log_fd,
                           struct egress_process ret[EGRESS_PROCESSES_MAX], size_t *n,
                           struct error *err)
{
        struct error hint = {};
        bool has_one = false;
        char ready;

        *n = 0;
        while (*n < EGRESS_PROCESSES_MAX) {
                if (start_one(how, log_fd, &ret[*n], &hint) < 0)
                        break;
                (*n)++;
        }
        /* Each leaves the broker's mount namespace before the broker changes it. The byte stays: the network takes it. */
        for (size_t i = 0; i < *n; i++)
                has_one |= recv(ret[i].socket, &ready, 1, MSG_PEEK) == 1;
        if (has_one)
                return 0;
        while (*n > 0)
                egress_process_end(&ret[--*n]);
        return error_set(err, ECHILD, "%s",
                         error_is_set(&hint)
                                 ? hint.text
                                 : "the process that has the network of sessions did not start");
}

/* ---- listeners ---- */

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

int network_open(struct network *network, uint32_t target, const struct network_fds *given,
                 struct error *err)
{
        const struct egress_open open = {};
        const struct listener *listener = find(network, target);

        if (network->n_processes == 0)
                return error_set(err, ENETDOWN, "no process that has it is left");
        if (!listener)
                return error_set(err, ENOTCONN, "there is no listener");
        const int fds[EGRESS_FDS_MAX] = {[EGRESS_FD_LISTENER] = listener->fd,
                                         [EGRESS_FD_PAGE] = given->page,
                                         [EGRESS_FD_LEASH] = given->leash,
                                         [EGRESS_FD_INJECT] = given->inject[0],
                                         [EGRESS_FD_INJECT_LIST] = given->inject[1]};
        int r = fd_send(network->processes[0].socket, &open, sizeof(open), fds,
                        given->inject[0] >= 0 ? EGRESS_FDS_MAX : EGRESS_FDS, MSG_DONTWAIT);
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
