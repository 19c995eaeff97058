/* Starts programs in namespaces of their own. */
#include "supervisor/monitor/monitor-helper.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/process/child.h"

enum { FIRST_GIVEN_FD = 3, FIRST_FREE_FD = 100 };

static int place(const int *given, size_t n)
{
        int high[MONITOR_HELPER_FDS], keep[MONITOR_HELPER_FDS + 1] = {STDERR_FILENO};

        for (size_t i = 0; i < n; i++) {
                keep[i + 1] = high[i] = fcntl(given[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
                if (high[i] < 0)
                        return -EMFILE;
        }
        child_close_all_but(keep, n + 1);
        int none = open("/dev/null", O_RDWR);
        if (none != STDIN_FILENO || dup2(none, STDOUT_FILENO) < 0)
                return -EBADF;
        for (size_t i = 0; i < n; i++)
                if (dup2(high[i], FIRST_GIVEN_FD + (int)i) < 0)
                        return -EBADF;
        return fd_close_range(FIRST_FREE_FD, ~0U);
}

static _Noreturn void exec_helper(const struct monitor *m, const struct monitor_helper *helper,
                                  int go)
{
        char uid[16], byte;
        char *const words[] = {(char *)helper->name, uid, NULL};
        char *const environment[] = {helper->variable, NULL};

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        snprintf(uid, sizeof(uid), "%d", m->ids.mode == SANDBOX_ROOTLESS ? -1 : (int)m->ids.broker);
        if (read(go, &byte, 1) != 1 || place(helper->fds, helper->n_fds) < 0)
                _exit(1);
        child_reset_signals();
        if (userns_keep_capabilities() >= 0)
                execve(helper->program, words, environment);
        _exit(1);
}

pid_t monitor_helper_start(struct monitor *m, const struct monitor_helper *helper,
                           struct error *err)
{
        uid_t uid = m->ids.broker;
        int ends[2];

        assert(helper->n_fds <= MONITOR_HELPER_FDS);
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        _cleanup_close_ int go_read = ends[0], go = ends[1];
        pid_t pid = userns_fork(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |
                                CLONE_NEWNET);
        if (pid < 0)
                return error_errno(err, -pid, "new namespaces");
        if (pid == 0) {
                close(go);
                exec_helper(m, helper, go_read);
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
