/*
 * PID 1 of a sandbox: reaps processes, interrupts the worker on request, reports its wait status.
 *
 * It is static, has an empty environment, and is non-dumpable and filtered before it releases the
 * worker: code in the sandbox can neither read nor control it. When PID 1 ends, the kernel kills all
 * processes of the namespace. It ends when the worker ends, and when the monitor closes the control
 * pipe.
 */
#include "sandbox-init/init/init.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/filter-load.h"
#include "rpc/sandbox-messages.h"

/* The first process forked in a pid namespace. The pid is not reused before init has reaped it. */
enum { WORKER_PID = 2 };

static void on_child(int number)
{
        (void)number; /* only has to interrupt ppoll() */
}

/* SIGCHLD is only unblocked in ppoll(), so that none is missed between waitpid() and ppoll(). */
static int watch_children(sigset_t *while_waiting)
{
        struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
        sigset_t blocked;

        sigemptyset(&blocked);
        sigaddset(&blocked, SIGCHLD);
        sigemptyset(while_waiting);
        if (sigaction(SIGCHLD, &action, NULL) < 0 || sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
                return -errno;
        return 0;
}

/* Returns 1 when the worker has ended and is reported. */
static int reap(void)
{
        struct init_report report;
        pid_t pid;

        while ((pid = waitpid(-1, &report.wait_status, WNOHANG)) > 0) {
                if (pid != WORKER_PID)
                        continue;
                fd_write_all(INIT_REPORT_FD, &report, sizeof(report));
                return 1;
        }
        return 0;
}

/* Returns 1 when the monitor has closed the control pipe. */
static int obey(void)
{
        char command;

        ssize_t n = read(INIT_CONTROL_FD, &command, 1);
        if (n == 0)
                return 1;
        if (n == 1 && command == INIT_INTERRUPT)
                kill(WORKER_PID, SIGINT);
        return 0;
}

int init_main(void)
{
        struct error error = {};
        sigset_t while_waiting;

        if (prctl(PR_SET_DUMPABLE, 0) < 0 || watch_children(&while_waiting) < 0)
                return 1;
        if (filter_load(INIT_FILTER_FD, &error) < 0)
                return 1;
        close(INIT_FILTER_FD);
        if (fd_write_all(INIT_RELEASE_FD, "r", 1) < 0)
                return 1;
        close(INIT_RELEASE_FD);

        for (;;) {
                struct pollfd control = {.fd = INIT_CONTROL_FD, .events = POLLIN};

                if (reap())
                        return 0;
                int n = ppoll(&control, 1, NULL, &while_waiting);
                if (n > 0 && obey())
                        return 0;
                if (n < 0 && errno != EINTR)
                        return 1;
        }
}
