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
 * A server that runs apart has namespaces of its own, and the reaper is PID 1 in them: it adopts every orphan as well, it gets
 * no signal of the server that it has not asked for, and with its own end, however that comes, the kernel kills all others.
 *
 * Where the server runs as another user, the reaper sets its effective uid to that user's, which
 * lets it signal the server without CAP_KILL. Its real and saved uids stay, so that the server
 * cannot signal it.
 */
#include "supervisor/monitor/upstream/reaper.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"
#include "supervisor/monitor/upstream/apart.h"

/*
 * The descendants of this process. One pass over /proc reads the parent of every process; then the descendants
 * are marked. (/proc/PID/task/TID/children is shorter, but needs CONFIG_PROC_CHILDREN and misses
 * entries while tasks exit.) A pass is not a snapshot: callers repeat it until no child is left. A
 * process is signalled through a pidfd, whose parent is checked again after opening, so that a
 * reused pid is not hit.
 */

enum {
        STOP_PASSES = 20, /* of SIGSTOP before the kill, a millisecond apart */
        /* Between two rounds of SIGKILL. A process that survives the first is in an uninterruptible
         * sleep. */
        KILL_INTERVAL_MS = 50,
};

struct process {
        pid_t pid, parent;
        char state;
        bool below; /* a descendant of ours */
};

struct process_list {
        struct process *items;
        size_t count, allocated;
};

static int read_process(int proc_fd, const char *pid, struct process *ret)
{
        char path[32], line[512];

        snprintf(path, sizeof(path), "%.16s/stat", pid);
        _cleanup_close_ int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ssize_t n = fd_read_full(fd, line, sizeof(line) - 1);
        if (n <= 0)
                return -ESRCH;
        line[n] = '\0';
        /* The name is in parentheses and may contain any byte: the last parenthesis ends it. */
        const char *rest = strrchr(line, ')');
        int parent;
        if (!rest || sscanf(rest, ") %c %d", &ret->state, &parent) != 2)
                return -EINVAL;
        ret->pid = atoi(pid);
        ret->parent = parent;
        ret->below = false;
        return 0;
}

static int list_append(struct process_list *list, const struct process *item)
{
        if (list->count == list->allocated) {
                size_t room = list->allocated ? list->allocated * 2 : 256;
                struct process *more = reallocarray(list->items, room, sizeof(*more));
                if (!more)
                        return -ENOMEM;
                list->items = more;
                list->allocated = room;
        }
        list->items[list->count++] = *item;
        return 0;
}

static void list_done(struct process_list *list)
{
        free(list->items);
}

static int compare_pids(const void *a, const void *b)
{
        const struct process *left = a, *right = b;

        return (left->pid > right->pid) - (left->pid < right->pid);
}

static bool is_below(const struct process_list *list, pid_t pid)
{
        struct process key = {.pid = pid};
        const struct process *found = bsearch(&key, list->items, list->count, sizeof(key),
                                              compare_pids);

        return found && found->below;
}

/* Repeats until nothing changes: our children, then their children, and so on. */
static void mark_descendants(struct process_list *list)
{
        pid_t self = getpid();
        bool changed = list->count > 0;

        if (changed)
                qsort(list->items, list->count, sizeof(list->items[0]), compare_pids);
        while (changed) {
                changed = false;
                for (size_t i = 0; i < list->count; i++) {
                        struct process *p = &list->items[i];
                        if (p->below || (p->parent != self && !is_below(list, p->parent)))
                                continue;
                        p->below = changed = true;
                }
        }
}

static int list_processes(DIR *proc, struct process_list *ret)
{
        struct dirent *entry;

        rewinddir(proc);
        ret->count = 0;
        while ((entry = readdir(proc))) {
                struct process p;
                if (!isdigit((unsigned char)entry->d_name[0]) ||
                    read_process(dirfd(proc), entry->d_name, &p) < 0)
                        continue;
                int r = list_append(ret, &p);
                if (r < 0)
                        return r;
        }
        mark_descendants(ret);
        return 0;
}

static void send_signal(int proc_fd, const struct process *p, int signal)
{
        _cleanup_close_ int fd = pidfd_open(p->pid, 0);
        struct process now;
        char pid[16];

        if (fd < 0)
                return;
        snprintf(pid, sizeof(pid), "%d", p->pid);
        if (read_process(proc_fd, pid, &now) < 0)
                return;
        if (now.parent == p->parent || now.parent == getpid())
                pidfd_send_signal(fd, signal, NULL, 0);
}

static void close_dir(DIR **dir)
{
        if (*dir)
                closedir(*dir);
}

static bool is_still(const struct process *p)
{
        return strchr("TtZX", p->state) != NULL;
}

/* Returns how many running processes were signalled. */
static size_t signal_descendants(DIR *proc, struct process_list *list, int signal)
{
        size_t running = 0;

        if (list_processes(proc, list) < 0)
                return 0;
        for (size_t i = 0; i < list->count; i++) {
                const struct process *p = &list->items[i];
                if (!p->below || (signal == SIGSTOP && is_still(p)))
                        continue;
                running += !is_still(p);
                send_signal(dirfd(proc), p, signal);
                if (signal == SIGTERM && is_still(p))
                        send_signal(dirfd(proc), p, SIGCONT);
        }
        return running;
}

static void nap(void)
{
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Sends SIGTERM to every descendant, and SIGCONT to stopped ones. */
static void process_tree_terminate(void)
{
        _cleanup_(list_done) struct process_list list = {0};
        _cleanup_(close_dir) DIR *proc = opendir("/proc");

        if (proc)
                signal_descendants(proc, &list, SIGTERM);
}

/* Kills every descendant. Stops them all first, so that none can fork while the others are
 * killed. Processes that were missed are found by the next call: repeat until waitpid() fails
 * with ECHILD. */
static void process_tree_kill(void)
{
        _cleanup_(list_done) struct process_list list = {0};
        _cleanup_(close_dir) DIR *proc = opendir("/proc");

        if (!proc)
                return;
        for (int pass = 0; pass < STOP_PASSES; pass++) {
                if (signal_descendants(proc, &list, SIGSTOP) == 0)
                        break;
                nap();
        }
        signal_descendants(proc, &list, SIGKILL);
}

/* ---- the reaper ---- */

struct reaper {
        struct reaper_fds fds;
        int signals;
        pid_t server;
        int32_t wait_status;
        bool apart; /* we are PID 1 of its namespace */
        bool server_gone;
        bool ending;
        bool killed;        /* SIGKILL was sent once */
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
        if (launch->passed_fd >= 0)
                fd_set_cloexec(launch->passed_fd, 0);
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
                        if (k->apart && k->killed)
                                break; /* the kernel kills what we may not, as soon as we end */
                        if (k->apart)
                                apart_kill_all();
                        else
                                process_tree_kill();
                        k->killed = true;
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

static void isolate(const struct reaper_fds *fds, int passed_fd)
{
        const int keep_open[] = {fds->life,     fds->report,   fds->result, fds->stdio[0],
                                 fds->stdio[1], fds->stdio[2], passed_fd};

        child_close_all_but(keep_open, sizeof(keep_open) / sizeof(keep_open[0]));
        setsid();
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

_Noreturn static void give_up(const struct reaper_fds *fds, const struct error *error)
{
        fd_write_all(fds->result, error, sizeof(*error));
        _exit(1);
}

void reaper_run(const struct reaper_fds *fds, const struct upstream_launch *launch)
{
        struct reaper k = {.fds = *fds, .apart = launch->apart, .wait_status = -1};
        struct error error = {0};

        isolate(fds, launch->passed_fd);
        char go = 0;
        if (read(fds->life, &go, 1) != 1 || go != REAPER_START)
                _exit(1);
        /* Not before: the monitor writes the map of its user namespace. */
        child_hide("cloister-reaper");
        if (launch->apart && apart_enter(&error) < 0)
                give_up(fds, &error);
        k.signals = open_signals();
        k.server = k.signals < 0 ? -1 : fork();
        if (k.server < 0) {
                error_errno(&error, errno, "fork");
                give_up(fds, &error);
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
        if (!k.server_gone)
                k.wait_status = SIGKILL;
        fd_write_all(fds->report, &k.wait_status, sizeof(k.wait_status));
        _exit(0);
}
