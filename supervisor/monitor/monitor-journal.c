/* Starts the process that has the journal's key. */
#include "supervisor/monitor/monitor-journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/places.h"
#include "policy/config/journal-keys.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/process/child.h"

enum { SOCKET_FD = 3, FILTER_FD, FIRST_FREE_FD = 100, END_MS = 2000 };

struct launch {
        const char *program, *directory;
        uint64_t max, keep_s;
        int socket, filter;
};

static int place(int socket, int filter)
{
        int high[] = {fcntl(socket, F_DUPFD_CLOEXEC, FIRST_FREE_FD),
                      fcntl(filter, F_DUPFD_CLOEXEC, FIRST_FREE_FD)};
        const int keep[] = {STDERR_FILENO, high[0], high[1]};

        if (high[0] < 0 || high[1] < 0)
                return -EMFILE;
        child_close_all_but(keep, ARRAY_SIZE(keep));
        int none = open("/dev/null", O_RDWR);
        if (none != STDIN_FILENO || dup2(none, STDOUT_FILENO) < 0 || dup2(high[0], SOCKET_FD) < 0 ||
            dup2(high[1], FILTER_FD) < 0)
                return -EBADF;
        return fd_close_range(FIRST_FREE_FD, ~0U);
}

static _Noreturn void exec_journal(const struct launch *how)
{
        char max[24], keep[24];
        char *const words[] = {(char[]){"cloister-journal"},
                               (char[]){"serve"},
                               (char *)how->directory,
                               max,
                               keep,
                               NULL};
        char *const environment[] = {NULL};

        /* Ctrl-C in a terminal ends the server, and this process after it. */
        setsid();
        snprintf(max, sizeof(max), "%llu", (unsigned long long)how->max);
        snprintf(keep, sizeof(keep), "%llu", (unsigned long long)how->keep_s);
        if (place(how->socket, how->filter) >= 0) {
                child_reset_signals();
                execve(how->program, words, environment);
        }
        _exit(1);
}

static pid_t launch(struct monitor *m, int socket, struct error *err)
{
        struct launch how = {.program = m->journal.program, .socket = socket};
        char directory[PATH_MAX];

        if (!config_journal_limits(m->config, &how.max, &how.keep_s))
                return error_set(err, EINVAL, "no profile of the config has a journal");
        if (place_state("journal", directory, sizeof(directory)) < 0)
                return error_set(err, ENOENT, PLACE_STATE_MISSING);
        how.directory = directory;
        _cleanup_close_ int filter = how.filter = filter_compile(FILTER_JOURNAL, err);
        if (filter < 0)
                return filter;
        pid_t pid = userns_fork(0);
        if (pid < 0)
                return error_errno(err, -pid, "fork");
        if (pid == 0)
                exec_journal(&how);
        int r = children_add(m->children, pid);
        if (r < 0) {
                child_kill(pid);
                return error_errno(err, -r, "start");
        }
        return pid;
}

static void forget(struct monitor *m)
{
        children_remove(m->children, m->journal.pid);
        loop_event_free(&m->journal.end);
        close(m->journal.pidfd);
        m->journal.pid = 0;
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;
        int status = 0;

        waitpid(m->journal.pid, &status, 0);
        if (status != 0)
                log_warning("cloister-journal ended with the wait status 0x%x", (unsigned)status);
        forget(m);
}

static void end(struct monitor *m, unsigned milliseconds)
{
        if (m->journal.pid == 0)
                return;
        (void)child_wait_in_time(m->journal.pid, milliseconds, NULL);
        forget(m);
}

void monitor_journal_done(struct monitor *m)
{
        end(m, END_MS);
}

static int watch(struct monitor *m, pid_t pid, struct error *err)
{
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        struct event *event = pidfd < 0 ? NULL : event_new(m->base, pidfd, EV_READ, on_end, m);

        if (!event || event_add(event, NULL) < 0) {
                loop_event_free(&event);
                if (pidfd >= 0)
                        close(pidfd);
                child_kill(pid);
                children_remove(m->children, pid);
                return error_errno(err, ENOMEM, "watch");
        }
        m->journal.pid = pid;
        m->journal.pidfd = pidfd;
        m->journal.end = event;
        return 0;
}

void monitor_journal_start(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};
        int pair[2];

        /* The broker has lost the previous process, or breaks the protocol: there is one at most. */
        end(m, 0);
        int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0
                        ? error_errno(&error, errno, "socketpair")
                        : 0;
        if (r >= 0) {
                _cleanup_close_ int ours = pair[0], theirs = pair[1];
                pid_t pid = launch(m, theirs, &error);
                r = pid < 0 ? pid : watch(m, pid, &error);
                if (r >= 0)
                        monitor_send(m,
                                     &(struct monitor_event){.kind = MONITOR_JOURNAL_STARTED,
                                                             .serial = request->serial},
                                     &ours, 1);
        }
        if (r < 0) {
                error_context(&error, "start cloister-journal");
                log_warning("%s", error.text);
                monitor_send_failed(m, request->serial, &error);
        }
}
