/* Runs the command that prints a token or a secret. */
#include "supervisor/access/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

/* Its own group, so that what it starts ends with it. */
static pid_t start(char *const *argv, int input, int output, const char *what, struct error *err)
{
        pid_t pid = fork();

        if (pid < 0)
                return error_errno(err, errno, "%s: fork", what);
        if (pid > 0)
                setpgid(pid, pid); /* the child may not have come so far when it is killed */
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                setpgid(0, 0);
                signal(SIGPIPE, SIG_DFL);
                if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0)
                        _exit(127);
                execvp(argv[0], argv);
                _exit(errno == ENOENT ? 127 : 126);
        }
        return pid;
}

/* Whether there is something to read, or the process of a pidfd has ended, before the deadline. */
static bool wait_for(int fd, uint64_t until)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now;

        while ((now = clock_us()) < until) {
                int r = poll(&p, 1, (int)((until - now) / 1000) + 1);
                if (r > 0 || (r < 0 && errno != EINTR))
                        return r > 0;
        }
        return false;
}

/* Reads until the end or the deadline. Returns the length, -ETIMEDOUT, -EMSGSIZE. */
static ssize_t read_output(int fd, uint64_t until, char *to, size_t size)
{
        size_t n = 0;

        for (;;) {
                if (!wait_for(fd, until))
                        return -ETIMEDOUT;
                ssize_t r = read(fd, to + n, size - n);
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0)
                        return r < 0 ? -errno : (ssize_t)n;
                n += (size_t)r;
                if (n == size)
                        return -EMSGSIZE;
        }
}

/* A program may close its standard output and keep running. */
static bool ends_until(pid_t pid, uint64_t until)
{
        _cleanup_close_ int pidfd = pidfd_open(pid, 0);

        return pidfd >= 0 && wait_for(pidfd, until);
}

static int check_status(const struct access_command *command, int status, struct error *err)
{
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                return error_set(err, ENOENT, "%s: cannot run %s: not found", command->what,
                                 command->argv[0]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        return error_set(err, EIO, "%s: %s ended with %s %d", command->what, command->argv[0],
                         WIFEXITED(status) ? "exit status" : "signal",
                         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* n: what read_output() returned, 0 or more once the program has ended by itself. */
static int finish(pid_t pid, const struct access_command *command, ssize_t n, size_t size,
                  struct error *err)
{
        const char *what = command->what, *program = command->argv[0];
        int status = 0;

        if (n < 0) {
                kill(-pid, SIGKILL);
                kill(pid, SIGKILL);
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (n == -ETIMEDOUT)
                return error_set(err, ETIMEDOUT, "%s: %s did not end within %g s", what, program,
                                 command->ms / 1000.0);
        if (n == -EMSGSIZE)
                return error_set(err, EMSGSIZE, "%s: %s printed more than %zu KiB", what, program,
                                 size / 1024);
        return n < 0 ? error_errno(err, (int)-n, "%s: %s", what, program)
                     : check_status(command, status, err);
}

int access_run(const struct access_command *command, char *to, size_t size, struct error *err)
{
        uint64_t until = clock_us() + command->ms * 1000ULL;
        const char *what = command->what;
        int in[2], out[2];

        if (pipe2(in, O_CLOEXEC) < 0)
                return error_errno(err, ENOMEM, "%s", what);
        _cleanup_close_ int in_read = in[0];
        _cleanup_close_ int in_write = in[1];
        if (pipe2(out, O_CLOEXEC) < 0)
                return error_errno(err, errno, "%s: pipe", what);
        _cleanup_close_ int out_read = out[0];
        _cleanup_close_ int out_write = out[1];
        /* At most PIPE_BUF, so that this does not block. */
        if (fd_write_all(in_write, command->input, strnlen(command->input, 4096)) < 0)
                return error_errno(err, EPIPE, "%s", what);
        close(take_fd(in_write));
        pid_t pid = start(command->argv, in_read, out_write, what, err);
        if (pid < 0)
                return pid;
        close(take_fd(out_write));
        ssize_t n = read_output(out_read, until, to, size - 1);
        if (n >= 0 && !ends_until(pid, until))
                n = -ETIMEDOUT;
        int r = finish(pid, command, n, size, err);
        if (r < 0)
                return r;
        to[n] = '\0';
        to[strcspn(to, "\r\n")] = '\0';
        return 0;
}
