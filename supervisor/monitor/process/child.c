/* First steps of a process forked from the monitor. */
#include "supervisor/monitor/process/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

/* Between two looks at a child that has no pidfd. */
enum { LOOK_MS = 1, END_MS = 1000 };

void child_close_all_but(const int *keep, size_t n)
{
        int sorted[CHILD_KEEP_MAX];

        assert(n <= CHILD_KEEP_MAX);
        for (size_t i = 0; i < n; i++) {
                size_t at = i;
                for (; at > 0 && sorted[at - 1] > keep[i]; at--)
                        sorted[at] = sorted[at - 1];
                sorted[at] = keep[i];
        }
        unsigned next = 0;
        for (size_t i = 0; i < n; i++) {
                if (sorted[i] < 0)
                        continue;
                unsigned fd = (unsigned)sorted[i];
                if (fd > next)
                        fd_close_range(next, fd - 1);
                next = fd + 1;
        }
        fd_close_range(next, ~0U);
}

void child_reset_signals(void)
{
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigset_t none;

        /* The two signals that libc reserves give EINVAL; their action is the default. */
        for (int i = 1; i < NSIG; i++)
                sigaction(i, &action, NULL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
}

int child_place_fd(int source, int target)
{
        if (source == target)
                return fcntl(target, F_SETFD, 0) < 0 ? -errno : 0;
        return dup2(source, target) < 0 ? -errno : 0;
}

void child_hide(const char *name)
{
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        prctl(PR_SET_NAME, name, 0, 0, 0);
}

ssize_t child_read_in_time(int fd, void *data, size_t n, unsigned int milliseconds)
{
        uint64_t end = clock_ms() + milliseconds;
        size_t have = 0;

        while (have < n) {
                struct pollfd in = {.fd = fd, .events = POLLIN};
                uint64_t now = clock_ms();
                int ready = poll(&in, 1, now < end ? (int)(end - now) : 0);
                if (ready == 0)
                        return -ETIMEDOUT;
                ssize_t got = ready < 0 ? -1 : read(fd, (char *)data + have, n - have);
                if (got < 0 && errno != EINTR)
                        return -errno;
                if (got == 0)
                        break;
                have += got > 0 ? (size_t)got : 0;
        }
        return (ssize_t)have;
}

/* Returns 0, -ETIMEDOUT, or -ECHILD: it was reaped already. */
static int await_end(pid_t pid, int pidfd, unsigned int milliseconds, int *status)
{
        uint64_t end = clock_ms() + milliseconds;

        for (;;) {
                struct pollfd ended = {.fd = pidfd, .events = POLLIN};
                pid_t reaped = waitpid(pid, status, WNOHANG);
                uint64_t now = clock_ms();
                if (reaped == pid)
                        return 0;
                if (reaped < 0 && errno != EINTR)
                        return -errno;
                if (now >= end)
                        return -ETIMEDOUT;
                poll(&ended, 1, pidfd < 0 ? LOOK_MS : (int)(end - now));
        }
}

int child_signal(pid_t pid, int number)
{
        if (kill(pid, number) == 0)
                return 0;
        int code = errno;
        _cleanup_close_ int pidfd = code == ESRCH ? -1 : pidfd_open(pid, 0);
        return pidfd >= 0 && pidfd_send_signal(pidfd, number, NULL, 0) == 0 ? 0 : -code;
}

int child_wait_in_time(pid_t pid, unsigned int milliseconds, int *status)
{
        _cleanup_close_ int pidfd = pidfd_open(pid, 0);
        int r = await_end(pid, pidfd, milliseconds, status);

        if (r == -ETIMEDOUT) {
                child_signal(pid, SIGKILL);
                await_end(pid, pidfd, END_MS, NULL);
        }
        return r;
}

void child_kill(pid_t pid)
{
        child_signal(pid, SIGKILL);
        child_wait_in_time(pid, END_MS, NULL);
}
