/* Starts the process that checks pictures. */
#include "supervisor/monitor/monitor-pictures.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/monitor-helper.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/process/child.h"

static pid_t launch(struct monitor *m, int socket, struct error *err)
{
        _cleanup_close_ int filter = filter_compile(FILTER_PICTURE, err);
        const int given[] = {socket, filter};
        const struct monitor_helper helper = {.program = m->pictures.program,
                                              .name = "cloister-pictures",
                                              .fds = given,
                                              .n_fds = ARRAY_SIZE(given)};

        return filter < 0 ? filter : monitor_helper_start(m, &helper, err);
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
