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

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"

/* ---- the processes of a template's pid namespace ---- */

/*
 * The processes of a template's pid namespace that belong to no session: stub and template, and
 * what code of the image has forked. Seen from outside, through /proc/PID/task/TID/children. An
 * orphan becomes a child of the stub, so that the children of these two, and theirs, are all of them.
 */

enum { NAME_SIZE = 17, LIST_SIZE = 64 * 1024 };

/* A file of a process into text (NUL-terminated, cut). Returns its length or negative errno. */
static ssize_t read_file(pid_t pid, const char *name, char *text, size_t size)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ssize_t n = fd_read_full(fd, text, size - 1);
        text[n < 0 ? 0 : n] = '\0';
        return n;
}

static ssize_t read_children(pid_t pid, pid_t thread, char *text, size_t size)
{
        char name[32];

        snprintf(name, sizeof(name), "task/%d/children", (int)thread);
        return read_file(pid, name, text, size);
}

int family_open(pid_t stub, pid_t template, struct family *ret, struct error *err)
{
        const pid_t pids[] = {template, stub};
        char path[64];

        *ret = FAMILY_INIT;
        snprintf(path, sizeof(path), "/proc/%d/task", (int)template);
        ret->threads = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int code = ret->threads < 0 ? errno : 0;
        for (size_t i = 0; i < ARRAY_SIZE(pids) && code == 0; i++) {
                snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pids[i],
                         (int)pids[i]);
                ret->children[i] = open(path, O_RDONLY | O_CLOEXEC);
                code = ret->children[i] < 0 ? errno : 0;
        }
        return code ? error_errno(err, code, "open %s", path) : 0;
}

void family_close(struct family *f)
{
        int fds[] = {f->threads, f->children[0], f->children[1]};

        fd_close_many(fds, ARRAY_SIZE(fds));
        *f = FAMILY_INIT;
}

static int check_children(int list, const char *whose, struct error *err)
{
        char text[32], name[NAME_SIZE] = "";

        ssize_t n = pread(list, text, sizeof(text) - 1, 0);
        if (n < 0)
                return error_errno(err, errno, "list the children of the %s", whose);
        if (n == 0)
                return 0;
        text[n] = '\0';
        ssize_t length = read_file((pid_t)strtol(text, NULL, 10), "comm", name, sizeof(name));
        if (length > 0)
                name[length - 1] = '\0';
        return error_set(
                err, EPERM,
                "code of the image has left a process (\"%s\") beside its template, which no session may run beside: the template is ended with all of its sessions",
                name);
}

/* The directory has one link for each thread, besides its own two. It has only these two when the
 * process has ended; the lists of children are empty then. */
static int check_threads(int threads, struct error *err)
{
        struct stat st;

        if (fstat(threads, &st) < 0)
                return error_errno(err, errno, "count the threads of the template");
        if (st.st_nlink == 3)
                return 0;
        if (st.st_nlink < 3)
                return error_errno(err, ESRCH, "count the threads of the template");
        return error_set(
                err, EPERM,
                "code of the image has started %d threads in its template, which no session would have: the template is ended with all of its sessions (start them in the code of a session)",
                (int)st.st_nlink - 3);
}

int family_check(const struct family *f, struct error *err)
{
        int r = check_threads(f->threads, err);

        if (r >= 0)
                r = check_children(f->children[0], "template", err);
        return r < 0 ? r : check_children(f->children[1], "stub", err);
}

/* ---- what it uses ---- */

/* Resident pages but those of files. Unlike smaps_rollup, reading this never waits for a lock that the
 * process may hold. */
static uint64_t anonymous(pid_t pid)
{
        char text[128];
        uint64_t pages = 0, of_files = 0;

        if (read_file(pid, "statm", text, sizeof(text)) <= 0 ||
            sscanf(text, "%*s %" SCNu64 " %" SCNu64, &pages, &of_files) != 2 || pages < of_files)
                return 0;
        return (pages - of_files) * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct walk {
        pid_t *pids;
        uint32_t n, most;
        uint32_t n_threads; /* besides the first of each process */
        char *text;         /* LIST_SIZE */
};

static void add_children(struct walk *w, pid_t pid, pid_t thread)
{
        char *at = w->text, *end;

        if (read_children(pid, thread, w->text, LIST_SIZE) <= 0)
                return;
        for (long child; w->n < w->most && (child = strtol(at, &end, 10)) > 0 && end > at; at = end)
                w->pids[w->n++] = (pid_t)child;
}

/* Each thread has its own children. */
static void add_children_of_all(struct walk *w, pid_t pid)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        DIR *threads = opendir(path);
        if (!threads)
                return;
        for (const struct dirent *e; w->n + w->n_threads < w->most && (e = readdir(threads));) {
                pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
                if (thread > 0)
                        add_children(w, pid, thread);
                w->n_threads += thread > 0 && thread != pid;
        }
        closedir(threads);
}

void family_measure(pid_t stub, pid_t template, uint32_t most, struct family_usage *ret)
{
        struct walk w = {.most = most + 1};
        uint64_t memory = 0;

        w.pids = calloc(w.most, sizeof(pid_t));
        w.text = malloc(LIST_SIZE);
        *ret = (struct family_usage){};
        if (w.pids && w.text) {
                w.pids[w.n++] = template;
                add_children(&w, stub, stub);
                for (uint32_t i = 0; i < w.n; i++) {
                        add_children_of_all(&w, w.pids[i]);
                        memory += anonymous(w.pids[i]);
                }
                *ret = (struct family_usage){.memory = memory, .processes = w.n + w.n_threads};
        }
        free(w.pids);
        free(w.text);
}

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
        /* Takes the pid 2, so that no template has it. A session's worker has it in its own namespace, and OpenSSL detects by a changed
         * pid that its generator was forked and must be seeded again. */
        pid_t second = fork();
        if (second == 0)
                _exit(0);
        if (second < 0 || waitpid(second, NULL, 0) != second)
                _exit(1);
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
        char text[4096];

        for (int tries = 0; tries < 2000; tries++) {
                ssize_t n = read_file(pid, "status", text, sizeof(text));
                if (n < 0)
                        return error_errno(err, (int)-n, "read /proc/%d/status", (int)pid);
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
