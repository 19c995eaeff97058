/*
 * The reaper of one stdio server.
 *
 * Theory of operation. The reaper outlives the monitor on purpose: it ends the server's processes
 * however the monitor ends, SIGKILL included. It notices that on the life socket, whose other end
 * only the monitor holds, and by its parent-death signal. The end begins with a command or end of
 * file on that socket, a signal to the reaper, or the exit of the server's first process. Then all
 * descendants get SIGTERM, and after REAPER_GRACE_MS SIGKILL, until wait() fails because no child
 * is left. A subreaper adopts every orphan, so that these are all processes of the server.
 *
 * Where the server runs as another user, the reaper sets its effective uid to that user's, which
 * lets it signal the server without CAP_KILL. Its real and saved uids stay, so that the server
 * cannot signal it.
 */
#include "supervisor/monitor/upstream/reaper.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"
#include "supervisor/monitor/upstream/process-tree.h"

/* Between two rounds of SIGKILL. A process that survives the first is in an uninterruptible
 * sleep. */
enum { KILL_INTERVAL_MS = 50 };

struct reaper {
        struct reaper_fds fds;
        int signals;
        pid_t server;
        int32_t wait_status;
        bool server_gone;
        bool ending;
        int64_t kill_at_ms; /* once ending: time of the next SIGKILL */
};

static int64_t now_ms(void)
{
        return (int64_t)clock_ms();
}

_Noreturn static void run_server(const struct reaper_fds *fds, const struct upstream_launch *launch)
{
        struct error error = {0};
        int r = 0;

        setsid();
        for (int i = 0; i < 3 && r >= 0; i++)
                r = child_place_fd(fds->stdio[i], i);
        if (r < 0)
                error_errno(&error, -r, "dup2");
        child_reset_signals();
        if (r >= 0)
                r = upstream_become(launch->user, &error);
        /* Set after the last change of ids, which clears it. If the reaper itself is killed, at
         * least its direct child ends. */
        prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
        if (r >= 0)
                upstream_exec(launch, &error);
        fd_write_all(fds->result, &error, sizeof(error));
        _exit(127);
}

static int open_signals(void)
{
        sigset_t all;

        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        return signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void take_user(const struct upstream_user *user)
{
        if (user->uid != geteuid() && setresuid((uid_t)-1, user->uid, (uid_t)-1) < 0)
                return;
        ids_drop_capabilities(NULL);
        prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Returns false when there is no child left. */
static bool reap(struct reaper *k)
{
        for (;;) {
                int status;
                pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
                if (pid == 0 || (pid < 0 && errno == EINTR))
                        return true;
                if (pid < 0)
                        return false;
                if (pid == k->server) {
                        k->server_gone = true;
                        k->wait_status = status;
                }
        }
}

static void begin_end(struct reaper *k)
{
        if (k->ending)
                return;
        k->ending = true;
        k->kill_at_ms = now_ms() + REAPER_GRACE_MS;
        process_tree_terminate();
}

static void on_life(struct reaper *k)
{
        char command = REAPER_STOP;
        ssize_t n = read(k->fds.life, &command, 1);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        begin_end(k);
        if (n == 1 && command == REAPER_KILL)
                k->kill_at_ms = now_ms();
        if (n <= 0) {
                close(k->fds.life);
                k->fds.life = -1;
        }
}

static void on_signals(struct reaper *k)
{
        struct signalfd_siginfo info;

        while (read(k->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
                switch (info.ssi_signo) {
                case SIGTERM:
                case SIGINT:
                case SIGHUP:
                case SIGQUIT:
                        begin_end(k);
                        break;
                default: /* reap() handles SIGCHLD; others are ignored */
                        break;
                }
        }
}

static int timeout_ms(const struct reaper *k)
{
        if (!k->ending)
                return -1;
        int64_t left = k->kill_at_ms - now_ms();
        return left < 0 ? 0 : (int)(left < INT_MAX ? left : INT_MAX);
}

static void run_until_no_child(struct reaper *k)
{
        while (reap(k)) {
                if (k->server_gone)
                        begin_end(k);
                if (k->ending && now_ms() >= k->kill_at_ms) {
                        process_tree_kill();
                        k->kill_at_ms = now_ms() + KILL_INTERVAL_MS;
                }
                struct pollfd polled[] = {
                        {.fd = k->fds.life, .events = POLLIN},
                        {.fd = k->signals, .events = POLLIN},
                };
                if (poll(polled, 2, timeout_ms(k)) < 0)
                        continue;
                if (polled[0].revents)
                        on_life(k);
                if (polled[1].revents)
                        on_signals(k);
        }
}

static void isolate(const struct reaper_fds *fds)
{
        const int keep_open[] = {fds->life,     fds->report,   fds->result,
                                 fds->stdio[0], fds->stdio[1], fds->stdio[2]};

        child_close_all_but(keep_open, sizeof(keep_open) / sizeof(keep_open[0]));
        setsid();
        child_hide("cloister-reaper");
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void reaper_run(const struct reaper_fds *fds, const struct upstream_launch *launch)
{
        struct reaper k = {.fds = *fds, .wait_status = -1};
        struct error error = {0};

        isolate(fds);
        k.signals = open_signals();
        k.server = k.signals < 0 ? -1 : fork();
        if (k.server < 0) {
                error_errno(&error, errno, "fork");
                fd_write_all(fds->result, &error, sizeof(error));
                _exit(1);
        }
        if (k.server == 0)
                run_server(fds, launch);
        close(fds->result);
        for (int i = 0; i < 3; i++)
                close(fds->stdio[i]);
        take_user(launch->user);
        /* Do not keep a file system busy: the server has its own working directory. */
        if (chdir("/") < 0)
                begin_end(&k);
        run_until_no_child(&k);
        fd_write_all(fds->report, &k.wait_status, sizeof(k.wait_status));
        _exit(0);
}
