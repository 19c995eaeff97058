/* Helper programs with bounded output and a deadline. */
#include "rootfs/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

typedef void process_child(const void *data, pid_t parent, const int streams[2]);

static _Noreturn void child(const void *data, pid_t parent, const int streams[2])
{
        const char *const *argv = data;
        sigset_t none;
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
            dup2(streams[0], STDOUT_FILENO) < 0 || dup2(streams[1], STDERR_FILENO) < 0)
                _exit(127);
        execvp(argv[0], (char *const *)argv);
        dprintf(STDERR_FILENO, "%s\n", strerror(errno));
        _exit(127);
}

/* Runs a function in a child: it gets the write ends for output and errors, and never returns. */
static int fork_child(process_child *run, const void *data, struct process *ret, struct error *err)
{
        int output[2], errors[2];

        if (pipe2(output, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        if (pipe2(errors, O_CLOEXEC) < 0) {
                int code = errno;
                fd_close_many(output, 2);
                return error_errno(err, code, "pipe");
        }
        pid_t parent = getpid(), pid = fork();
        if (pid == 0)
                run(data, parent, (int[]){output[1], errors[1]});
        int code = errno;
        close(output[1]);
        close(errors[1]);
        if (pid < 0) {
                close(output[0]);
                close(errors[0]);
                return error_errno(err, code, "fork");
        }
        fd_set_nonblocking(output[0], 1);
        fd_set_nonblocking(errors[0], 1);
        *ret = (struct process){.pid = pid, .output = output[0], .errors = errors[0]};
        return 0;
}

int process_start(const char *const argv[], struct process *ret, struct error *err)
{
        return fork_child(child, argv, ret, err);
}

/* Reads the available bytes of a stream. Returns 1 at its end, 0 if there may be more, or negative
 * errno. */
static int drain(int fd, struct buffer *b, bool drop)
{
        char rest[4096];

        for (;;) {
                ssize_t n = b ? buffer_read_fd(b, fd, 64 * 1024) : -EMSGSIZE;
                if (n == -EMSGSIZE && drop) {
                        n = read(fd, rest, sizeof(rest));
                        if (n < 0)
                                n = -errno;
                }
                if (n == 0)
                        return 1;
                if (n == -EAGAIN || n == -EINTR)
                        return 0;
                if (n < 0)
                        return (int)n;
        }
}

/* Passes on each complete line of a stream. */
struct lines {
        void (*line)(void *data, const char *line);
        void *data;
        char text[200];
        size_t n;
};

static int follow(int fd, struct lines *lines)
{
        char text[4096];

        for (;;) {
                ssize_t n = read(fd, text, sizeof(text));
                if (n == 0)
                        return 1;
                if (n < 0)
                        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
                for (ssize_t i = 0; i < n; i++) {
                        if (text[i] != '\n') {
                                if (lines->n < sizeof(lines->text) - 1)
                                        lines->text[lines->n++] = text[i];
                                continue;
                        }
                        lines->text[lines->n] = '\0';
                        lines->n = 0;
                        lines->line(lines->data, lines->text);
                }
        }
}

static int read_streams(struct process *p, int timeout_ms, struct buffer *output,
                        struct buffer *errors, struct lines *lines)
{
        struct pollfd fds[] = {{.fd = p->output, .events = POLLIN},
                               {.fd = p->errors, .events = POLLIN}};
        int64_t deadline = (int64_t)clock_ms() + timeout_ms;

        while (fds[0].fd >= 0 || fds[1].fd >= 0) {
                int64_t left = deadline - (int64_t)clock_ms();
                if (left <= 0)
                        return -ETIMEDOUT;
                if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
                        return -errno;
                for (int i = 0; i < 2; i++) {
                        if (fds[i].fd < 0)
                                continue;
                        int r = i == 0  ? drain(fds[i].fd, output, false)
                                : lines ? follow(fds[i].fd, lines)
                                        : drain(fds[i].fd, errors, true);
                        if (r < 0)
                                return r;
                        if (r > 0)
                                fds[i].fd = -1;
                }
        }
        return 0;
}

static int finish(struct process *p, int r, int timeout_ms, const struct buffer *output,
                  int *status, struct error *err)
{
        if (r < 0)
                kill(-p->pid, SIGKILL);
        close(p->output);
        close(p->errors);
        while (waitpid(p->pid, status, 0) < 0 && errno == EINTR)
                ;
        p->pid = 0;
        if (r == -ETIMEDOUT)
                return error_set(err, ETIMEDOUT, "no answer within %d s", timeout_ms / 1000);
        if (r == -EMSGSIZE)
                return error_set(err, EMSGSIZE, "answered with more than %zu bytes", output->limit);
        if (r < 0)
                return error_errno(err, -r, "read its answer");
        return 0;
}

int process_finish(struct process *p, int timeout_ms, struct buffer *output, struct buffer *errors,
                   int *status, struct error *err)
{
        int r = read_streams(p, timeout_ms, output, errors, NULL);
        return finish(p, r, timeout_ms, output, status, err);
}

int process_follow(struct process *p, int timeout_ms, struct buffer *output,
                   void (*line)(void *data, const char *line), void *data, int *status,
                   struct error *err)
{
        struct lines lines = {.line = line, .data = data};

        int r = read_streams(p, timeout_ms, output, NULL, &lines);
        return finish(p, r, timeout_ms, output, status, err);
}

char *process_last_line(struct buffer *b)
{
        if (buffer_append(b, "", 1) < 0)
                return NULL;
        char *text = buffer_bytes(b);
        size_t n = strlen(text);
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
                text[--n] = '\0';
        char *newline = strrchr(text, '\n');
        return newline ? newline + 1 : text;
}

/* ---- a program of an untrusted root file system ---- */

enum { UID = 1000, SECONDS = 20, PROCESSES = 64, FILES = 256 };

#define MEMORY ((rlim_t)2 << 30)

static _Noreturn void fail(const char *what)
{
        dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
        _exit(126);
}

static void write_file(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
                fail(path);
        close(fd);
}

/* Maps a uid other than 0, so that the exec drops all capabilities. */
static void enter_namespaces(uid_t uid, gid_t gid)
{
        char map[64];

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                    CLONE_NEWPID) < 0)
                fail("namespaces (see 'cloister doctor')");
        /* Uid 0 of the machine is mapped nowhere: without a map it is the overflow uid, which is sufficient.
         */
        if (uid == 0)
                return;
        write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof(map), "%d %u 1", UID, uid);
        write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof(map), "%d %u 1", UID, gid);
        write_file("/proc/self/gid_map", map);
}

/* Makes the directory the read-only root by pivot_root; nothing else is mounted then. */
static void enter_root(const char *root)
{
        struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                                    MOUNT_ATTR_NODEV};

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(root, root, NULL, MS_BIND, NULL) < 0 ||
            syscall(SYS_mount_setattr, AT_FDCWD, root, 0, &attributes, sizeof(attributes)) < 0)
                fail("mount its root");
        if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
            umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                fail("enter its root");
}

int process_open_inside(int root, const char *path, uint64_t flags)
{
        struct open_how how = {.flags = flags | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
        long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
        return fd < 0 ? -errno : (int)fd;
}

static void set_bounds(void)
{
        const struct {
                int resource;
                rlim_t most;
        } bounds[] = {{RLIMIT_AS, MEMORY},       {RLIMIT_CPU, SECONDS}, {RLIMIT_NOFILE, FILES},
                      {RLIMIT_NPROC, PROCESSES}, {RLIMIT_FSIZE, 0},     {RLIMIT_CORE, 0}};

        for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
                struct rlimit limit = {bounds[i].most, bounds[i].most};
                if (setrlimit((__rlimit_resource_t)bounds[i].resource, &limit) < 0)
                        fail("bounds");
        }
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                fail("no_new_privs");
}

static _Noreturn void inside(const char *root, const char *const argv[], const int streams[2])
{
        static char *const environment[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin",
                                            (char *)"LC_ALL=C.UTF-8", (char *)"HOME=/", NULL};

        enter_root(root);
        set_bounds();
        if (dup2(streams[0], STDOUT_FILENO) < 0 || dup2(streams[1], STDERR_FILENO) < 0)
                _exit(126);
        close(STDIN_FILENO);
        fd_close_range(3, ~0U);
        execve(argv[0], (char *const *)argv, environment);
        dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
}

struct confined {
        const char *root;
        const char *const *argv;
};

/* The process between the builder and PID 1 of the namespace: ends with the builder, and PID 1 ends
 * with it. */
static _Noreturn void reaper(const void *data, pid_t parent, const int streams[2])
{
        const struct confined *what = data;
        uid_t uid = geteuid();
        gid_t gid = getegid();
        int status = 0;

        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(streams[1], STDERR_FILENO) < 0)
                _exit(126);
        enter_namespaces(uid, gid);
        pid_t pid = fork();
        if (pid < 0)
                fail("fork");
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                inside(what->root, what->argv, streams);
        }
        close(streams[0]);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

int process_start_confined(const char *root, const char *const argv[], struct process *ret,
                           struct error *err)
{
        return fork_child(reaper, &(struct confined){root, argv}, ret, err);
}
