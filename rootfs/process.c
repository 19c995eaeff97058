/* Helper programs with bounded output and a deadline. */
#include "rootfs/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

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

int process_fork(process_child *run, const void *data, struct process *ret, struct error *err)
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
        return process_fork(child, argv, ret, err);
}

static int64_t now_ms(void)
{
        return (int64_t)clock_ms();
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
        int64_t deadline = now_ms() + timeout_ms;

        while (fds[0].fd >= 0 || fds[1].fd >= 0) {
                int64_t left = deadline - now_ms();
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
