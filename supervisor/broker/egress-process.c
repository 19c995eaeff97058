/*
 * Starts the processes that have the network of sessions.
 *
 * Theory of operation. Each is forked first of all, so that its memory holds nothing of the config: no credentials, no
 * names of servers. It takes a mount namespace of its own, whose root has /etc and the directory of resolv.conf,
 * read-only, and then gives up what the broker gives up, in the same order (isolate.c). It keeps the host's network
 * namespace, which the broker has too, but cannot use.
 *
 * The broker's Landlock domain has no right to signal a process that was forked before. So each process arranges its
 * own end: a pipe sends it SIGKILL when something happens to its other end, which the broker has (F_SETSIG in fcntl(2)).
 * The kernel does that, whatever the process is doing, also while it is stopped.
 */
#include "supervisor/broker/egress-process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/log.h"
#include "supervisor/broker/root.h"
#include "supervisor/egress/egress.h"

/* Where the child has its descriptors: standard input and output are the client's. */
enum { SOCKET_FD, FILTER_FD, ERROR_FD, END_FD, HIGH_FD = 1000 };

static const struct landlock_rule landlock_rules[] = {
        {"/", LANDLOCK_READ},
};

/* Standard error stays, and becomes the log if there is one. */
static bool place(int socket, int filter, int end, int log)
{
        int high[] = {fcntl(socket, F_DUPFD_CLOEXEC, HIGH_FD),
                      fcntl(filter, F_DUPFD_CLOEXEC, HIGH_FD),
                      fcntl(log < 0 ? STDERR_FILENO : log, F_DUPFD_CLOEXEC, HIGH_FD),
                      fcntl(end, F_DUPFD_CLOEXEC, HIGH_FD)};

        return dup2(high[0], SOCKET_FD) == SOCKET_FD && dup2(high[1], FILTER_FD) == FILTER_FD &&
               dup2(high[2], ERROR_FD) == ERROR_FD && dup2(high[3], END_FD) == END_FD &&
               fd_close_range(END_FD + 1, ~0U) >= 0;
}

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
                r = root_change(NULL, ROOT_NAMES, err);
        if (r < 0)
                return r;
        (void)capabilities_bound(0);
        if (capabilities_keep(0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_errno(err, errno, "give up privileges");
        if (landlock_confine(landlock_rules, ARRAY_SIZE(landlock_rules), true, &hint) < 0)
                log_info("without Landlock: %s", hint.text);
        return filter_load(filter, err);
}

static _Noreturn void run(const struct isolation *how, int socket, int end, int log)
{
        struct error error = {};

        prctl(PR_SET_NAME, "cloister-egress");
        if (!place(socket, how->filter_fd, end, log))
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

void egress_process_end(struct egress_process *process)
{
        if (process->end >= 0)
                (void)!write(process->end, "", 1);
        fd_close_many(&process->end, 1);
        fd_close_many(&process->socket, 1);
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
        return error_is_set(&hint)
                       ? error_set(err, ECHILD, "%s", hint.text)
                       : error_set(err, ECHILD,
                                   "the process that has the network of sessions did not start");
}
