/*
 * The stub.
 *
 * Theory of operation. It is forked, never exec'd: a template that gets around its filter could write
 * to a process that was exec'd, or that is dumpable, through /proc/1/mem. The stub is dumpable only
 * until the monitor has written its id maps and opened its namespaces. Both MUST happen before any
 * other process is in these namespaces. Afterwards the stub has one pipe, which it reads, and a
 * filter that allows read and exit.
 */
#include "supervisor/monitor/template/stub.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "supervisor/monitor/ids/userns.h"
#include "supervisor/monitor/process/child.h"

struct stub {
        struct children *children; /* borrowed */
        unsigned int holders;
        pid_t pid;
        int pipe; /* the stub reads the other end */
        int user_namespace, pid_namespace;
};

enum { STUB_PIPE_FD = 0, STUB_READY_FD = 1, STUB_FILTER_FD = 2, MOMENT_MS = 1, STEP_MS = 5000 };

static void stub_report(char step)
{
        if (write(STUB_READY_FD, &step, 1) != 1)
                _exit(1);
}

static void stub_main(int pipe_fd, int ready_fd, int filter_fd)
{
        char byte;

        /* A terminal or a caller may signal our whole process group. */
        setsid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* The kernel reaps the orphans of its pid namespace. */
        signal(SIGCHLD, SIG_IGN);
        if (dup2(pipe_fd, STUB_PIPE_FD) < 0 || dup2(ready_fd, STUB_READY_FD) < 0 ||
            dup2(filter_fd, STUB_FILTER_FD) < 0 || fd_close_range(3, ~0U) < 0)
                _exit(1);
        if (read(STUB_PIPE_FD, &byte, 1) != 1)
                _exit(1);
        prctl(PR_SET_DUMPABLE, 0);
        prctl(PR_SET_NAME, "cloister-stub");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                _exit(1);
        stub_report('r');
        /* From here on the monitor reads /proc/PID/status. */
        close(STUB_READY_FD);
        if (filter_load(STUB_FILTER_FD, NULL) < 0)
                _exit(1);
        /* The filter's descriptor stays open, because the filter denies close. It is a sealed,
         * read-only memfd. */
        while (read(STUB_PIPE_FD, &byte, 1) > 0)
                ;
        _exit(0);
}

static int expect_step(int fd, char step, struct error *err)
{
        char byte;

        if (child_read_in_time(fd, &byte, 1, STEP_MS) != 1 || byte != step)
                return error_set(err, EIO, "it ended or did not answer at step '%c'", step);
        return 0;
}

static int open_namespace(pid_t pid, const char *name, struct error *err)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? error_errno(err, errno, "open %s", path) : fd;
}

/* The filter is loaded within microseconds of the last step. A stub without it is not used. */
static int await_filter(pid_t pid, struct error *err)
{
        char path[64], text[4096];

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        for (int tries = 0; tries < 2000; tries++) {
                _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? -errno : fd_read_full(fd, text, sizeof(text) - 1);
                if (n < 0)
                        return error_errno(err, (int)-n, "read %s", path);
                text[n] = '\0';
                if (strstr(text, "\nSeccomp:\t2"))
                        return 0;
                usleep(50);
        }
        return error_set(err, ETIMEDOUT, "its filter did not load");
}

static int set_up(struct stub *s, const struct ids *ids, int ready, struct error *err)
{
        int r = ids_map(s->pid, ids, err);
        if (r < 0)
                return r;
        s->user_namespace = open_namespace(s->pid, "user", err);
        if (s->user_namespace < 0)
                return s->user_namespace;
        s->pid_namespace = open_namespace(s->pid, "pid", err);
        if (s->pid_namespace < 0)
                return s->pid_namespace;
        r = fd_write_all(s->pipe, "g", 1);
        if (r < 0)
                return error_errno(err, -r, "go");
        r = expect_step(ready, 'r', err);
        return r < 0 ? r : await_filter(s->pid, err);
}

static int start(struct stub *s, const struct ids *ids, int filter_fd, struct error *err)
{
        int sleep_pipe[2], ready_pipe[2];

        if (pipe2(sleep_pipe, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        _cleanup_close_ int sleep_end = sleep_pipe[0];
        s->pipe = sleep_pipe[1];
        if (pipe2(ready_pipe, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        _cleanup_close_ int ready = ready_pipe[0];
        _cleanup_close_ int ready_end = ready_pipe[1];

        s->pid = userns_fork(CLONE_NEWUSER | CLONE_NEWPID);
        if (s->pid < 0)
                return error_errno(err, -s->pid, "new user and pid namespace");
        if (s->pid == 0)
                stub_main(sleep_end, ready_end, filter_fd);
        close(take_fd(ready_end));
        int r = children_add(s->children, s->pid);
        return r < 0 ? error_errno(err, -r, "stub") : set_up(s, ids, ready, err);
}

int stub_start(const struct ids *ids, int filter_fd, struct children *children, struct stub **ret,
               struct error *err)
{
        struct stub *s = calloc(1, sizeof(*s));
        if (!s)
                return error_errno(err, ENOMEM, "stub");
        *s = (struct stub){.children = children,
                           .holders = 1,
                           .pipe = -1,
                           .user_namespace = -1,
                           .pid_namespace = -1};
        int r = start(s, ids, filter_fd, err);
        if (r < 0) {
                stub_unref(s);
                return error_context(err, "start the outer namespace");
        }
        *ret = s;
        return 0;
}

struct stub *stub_ref(struct stub *s)
{
        s->holders++;
        return s;
}

/* PID 1 of a pid namespace ends after all other processes in it were reaped. A session that was just
 * cloned, and not adopted yet, is our child: it is reaped here. */
static void wait_for_end(struct stub *s)
{
        _cleanup_close_ int pidfd = pidfd_open(s->pid, 0);
        struct pollfd end = {.fd = pidfd, .events = POLLIN};
        uint64_t latest = clock_ms() + STEP_MS;

        /* It lives on while a process of its namespace is in an uninterruptible sleep. */
        while (waitpid(s->pid, NULL, WNOHANG) == 0 && clock_ms() < latest) {
                children_reap_unknown(s->children);
                poll(&end, 1, MOMENT_MS);
        }
}

struct stub *stub_unref(struct stub *s)
{
        if (!s || --s->holders > 0)
                return NULL;
        if (s->pid > 0) {
                child_signal(s->pid, SIGKILL);
                wait_for_end(s);
                children_remove(s->children, s->pid);
        }
        int fds[] = {s->pipe, s->user_namespace, s->pid_namespace};
        fd_close_many(fds, ARRAY_SIZE(fds));
        free(s);
        return NULL;
}

void stub_kill(const struct stub *s)
{
        if (s->pid > 0)
                child_signal(s->pid, SIGKILL);
}

pid_t stub_pid(const struct stub *s)
{
        return s->pid;
}

static bool is_same(int a, int b)
{
        struct stat of_a, of_b;

        return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
               of_a.st_ino == of_b.st_ino;
}

bool stub_has(const struct stub *s, pid_t pid)
{
        struct error ignored = {};
        _cleanup_close_ int own = open_namespace(pid, "pid", &ignored);
        if (own < 0)
                return false;
        if (is_same(own, s->pid_namespace))
                return true;
        _cleanup_close_ int parent = ioctl(own, NS_GET_PARENT);
        return parent >= 0 && is_same(parent, s->pid_namespace);
}

int stub_user_namespace(const struct stub *s)
{
        return s->user_namespace;
}

int stub_pid_namespace(const struct stub *s)
{
        return s->pid_namespace;
}
