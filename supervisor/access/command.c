/* Runs the command that prints a token. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/access/access.h"

static char **make_argv(yyjson_val *list)
{
        size_t n = yyjson_arr_size(list), i;
        char **argv = calloc(n + 1, sizeof(char *));
        yyjson_val *item;

        if (!argv)
                return NULL;
        yyjson_arr_foreach (list, i, n, item)
                argv[i] = (char *)(uintptr_t)yyjson_get_str(item);
        return argv;
}

/* Its own group, so that what it starts ends with it. */
static pid_t start(char **argv, int input, int output, struct error *err)
{
        pid_t pid = fork();

        if (pid < 0)
                return error_errno(err, errno, "fork");
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

/* Reads until the end or the deadline. Returns the length, -ETIMEDOUT, -EMSGSIZE. */
static ssize_t read_output(int fd, char *to, size_t size)
{
        uint64_t until = clock_us() + ACCESS_COMMAND_MS * 1000ULL;
        size_t n = 0;

        for (;;) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                uint64_t now = clock_us();
                if (now >= until || poll(&p, 1, (int)((until - now) / 1000) + 1) == 0)
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

static int check_status(const char *program, int status, struct error *err)
{
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                return error_set(err, ENOENT, "token: cannot run %s: not found", program);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        return error_set(err, EIO, "token: %s ended with %s %d", program,
                         WIFEXITED(status) ? "exit status" : "signal",
                         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static int finish(pid_t pid, const char *program, ssize_t n, struct error *err)
{
        int status = 0;

        if (n < 0)
                kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (n == -ETIMEDOUT)
                return error_set(err, ETIMEDOUT, "token: %s did not end within %d s", program,
                                 ACCESS_COMMAND_MS / 1000);
        if (n == -EMSGSIZE)
                return error_set(err, EMSGSIZE, "token: %s printed more than %d KiB", program,
                                 ACCESS_TOKEN_MAX / 1024);
        return n < 0 ? error_errno(err, (int)-n, "token: %s", program)
                     : check_status(program, status, err);
}

int access_run(yyjson_val *list, const char *input, char *to, size_t size, struct error *err)
{
        _cleanup_free_ char **argv = make_argv(list);
        int in[2], out[2];

        if (!argv || pipe2(in, O_CLOEXEC) < 0)
                return error_errno(err, ENOMEM, "token");
        _cleanup_close_ int in_read = in[0];
        _cleanup_close_ int in_write = in[1];
        if (pipe2(out, O_CLOEXEC) < 0)
                return error_errno(err, errno, "token: pipe");
        _cleanup_close_ int out_read = out[0];
        _cleanup_close_ int out_write = out[1];
        /* At most PIPE_BUF, so that this does not block. */
        if (fd_write_all(in_write, input, strnlen(input, 4096)) < 0)
                return error_errno(err, EPIPE, "token");
        close(take_fd(in_write));
        pid_t pid = start(argv, in_read, out_write, err);
        if (pid < 0)
                return pid;
        close(take_fd(out_write));
        ssize_t n = read_output(out_read, to, size - 1);
        int r = finish(pid, argv[0], n, err);
        if (r < 0)
                return r;
        to[n] = '\0';
        to[strcspn(to, "\r\n")] = '\0';
        return 0;
}
