/* Starts the process that checks pictures. */
#include "supervisor/monitor/monitor-pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/process/child.h"

enum { SOCKET_FD = 3, FILTER_FD, FIRST_FREE_FD = 100, WAIT_MS = 1000 };

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

/* With the capabilities of its user namespace, which it gives up before the first picture. */
static _Noreturn void exec_pictures(const struct monitor *m, int socket, int filter, int go)
{
        char uid[16], byte;
        char *const words[] = {(char[]){"cloister-pictures"}, uid, NULL};
        char *const environment[] = {NULL};

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        snprintf(uid, sizeof(uid), "%d", m->ids.mode == SANDBOX_ROOTLESS ? -1 : (int)m->ids.broker);
        if (read(go, &byte, 1) != 1 || place(socket, filter) < 0)
                _exit(1);
        child_reset_signals();
        if (userns_keep_capabilities() >= 0)
                execve(m->pictures.program, words, environment);
        _exit(1);
}

static pid_t launch(struct monitor *m, int socket, struct error *err)
{
        uid_t uid = m->ids.broker;
        int ends[2];

        _cleanup_close_ int filter = filter_compile(FILTER_PICTURE, err);
        if (filter < 0)
                return filter;
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        _cleanup_close_ int go_read = ends[0], go = ends[1];
        pid_t pid = userns_fork(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |
                                CLONE_NEWNET);
        if (pid < 0)
                return error_errno(err, -pid, "new namespaces");
        if (pid == 0) {
                close(go);
                exec_pictures(m, socket, filter, go_read);
        }
        int r = children_add(m->children, pid);
        if (r >= 0)
                r = userns_map(pid, uid, uid, m->ids.mode == SANDBOX_ROOTLESS ? getegid() : uid, 1,
                               err);
        if (r >= 0)
                r = fd_write_all(go, "g", 1);
        if (r < 0) {
                child_kill(pid);
                children_remove(m->children, pid);
                return error_is_set(err) ? r : error_errno(err, -r, "start");
        }
        return pid;
}

static void forget(struct monitor *m)
{
        children_remove(m->children, m->pictures.pid);
        loop_event_free(&m->pictures.end);
        close(m->pictures.pidfd);
        m->pictures.pid = 0;
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;
        int status = 0;

        waitpid(m->pictures.pid, &status, 0);
        if (status != 0)
                log_warning("cloister-pictures ended with the wait status 0x%x", (unsigned)status);
        forget(m);
}

void monitor_pictures_done(struct monitor *m)
{
        if (m->pictures.pid == 0)
                return;
        child_kill(m->pictures.pid);
        forget(m);
}

static int watch(struct monitor *m, pid_t pid, struct error *err)
{
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        struct event *end = pidfd < 0 ? NULL : event_new(m->base, pidfd, EV_READ, on_end, m);

        if (!end || event_add(end, NULL) < 0) {
                loop_event_free(&end);
                if (pidfd >= 0)
                        close(pidfd);
                child_kill(pid);
                children_remove(m->children, pid);
                return error_errno(err, ENOMEM, "watch");
        }
        m->pictures.pid = pid;
        m->pictures.pidfd = pidfd;
        m->pictures.end = end;
        return 0;
}

void monitor_pictures_start(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};
        int pair[2];

        monitor_pictures_done(m);
        int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0
                        ? error_errno(&error, errno, "socketpair")
                        : 0;
        if (r >= 0) {
                _cleanup_close_ int ours = pair[0], theirs = pair[1];
                pid_t pid = launch(m, theirs, &error);
                r = pid < 0 ? pid : watch(m, pid, &error);
                if (r >= 0)
                        monitor_send(m,
                                     &(struct monitor_event){.kind = MONITOR_PICTURES_STARTED,
                                                             .serial = request->serial},
                                     &ours, 1);
        }
        if (r < 0) {
                error_context(&error, "start cloister-pictures");
                log_warning("%s", error.text);
                monitor_send_failed(m, request->serial, &error);
        }
}
