/*
 * Starts the processes that have the network of sessions.
 *
 * Theory of operation. Each is forked first of all, so that its memory holds nothing of the config: no credentials, no
 * names of servers. It takes a mount namespace of its own, whose root has /etc and the directory of resolv.conf,
 * read-only, and then gives up what the broker gives up, in the same order (isolate.c). It keeps the host's network
 * namespace, which the broker has too, but cannot use.
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
enum { SOCKET_FD, FILTER_FD, ERROR_FD, HIGH_FD = 1000 };

static const struct landlock_rule landlock_rules[] = {
        {"/", LANDLOCK_READ},
};

/* Standard error stays, and becomes the log if there is one. */
static bool place(int socket, int filter, int log)
{
        int high[] = {fcntl(socket, F_DUPFD_CLOEXEC, HIGH_FD),
                      fcntl(filter, F_DUPFD_CLOEXEC, HIGH_FD),
                      fcntl(log < 0 ? STDERR_FILENO : log, F_DUPFD_CLOEXEC, HIGH_FD)};

        return dup2(high[0], SOCKET_FD) == SOCKET_FD && dup2(high[1], FILTER_FD) == FILTER_FD &&
               dup2(high[2], ERROR_FD) == ERROR_FD && fd_close_range(ERROR_FD + 1, ~0U) >= 0;
}

/* Of glibc's resolver, resolv.conf(5): names are absolute, and a name server that is silent is given up soon. */
static void limit_resolver(void)
{
        setenv("LOCALDOMAIN", ".", 1);
        setenv("RES_OPTIONS", "timeout:2 attempts:2", 1);
}

static int confine(const struct isolation *how, int filter, struct error *err)
{
        struct error hint = {};

        isolate_limits();
        int r = isolate_become(how, err);
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

static _Noreturn void run(const struct isolation *how, int socket, int log)
{
        struct error error = {};

        prctl(PR_SET_NAME, "cloister-egress");
        if (!place(socket, how->filter_fd, log))
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

static int start_one(const struct isolation *how, int log_fd, struct error *err)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "the network of sessions: socketpair");
        pid_t pid = fork();
        if (pid == 0) {
                close(pair[0]);
                run(how, pair[1], log_fd);
        }
        int code = errno;
        close(pair[1]);
        if (pid < 0) {
                close(pair[0]);
                return error_errno(err, code, "the network of sessions: fork");
        }
        fd_refuse_rights(pair[0]);
        return pair[0];
}

int egress_processes_start(const struct isolation *how, int log_fd, int ret[EGRESS_PROCESSES_MAX],
                           size_t *n, struct error *err)
{
        struct error hint = {};
        bool has_one = false;
        char ready;

        *n = 0;
        while (*n < EGRESS_PROCESSES_MAX) {
                int fd = start_one(how, log_fd, &hint);
                if (fd < 0)
                        break;
                ret[(*n)++] = fd;
        }
        /* Each leaves the broker's mount namespace before the broker changes it. The byte stays: the network takes it. */
        for (size_t i = 0; i < *n; i++)
                has_one |= recv(ret[i], &ready, 1, MSG_PEEK) == 1;
        if (has_one)
                return 0;
        fd_close_many(ret, *n);
        *n = 0;
        return error_is_set(&hint)
                       ? error_set(err, ECHILD, "%s", hint.text)
                       : error_set(err, ECHILD,
                                   "the process that has the network of sessions did not start");
}
