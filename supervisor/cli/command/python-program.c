/* Runs a short Python program. */
#include "supervisor/cli/command/python-program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { OUTPUT_MAX = 64 * 1024 * 1024 };

static void run(const char *python, const char *program, int in, int out)
{
        char *const arguments[] = {(char *)"python3", (char *)"-I",    (char *)"-S",
                                   (char *)"-c",      (char *)program, NULL};
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
            dup2(null, STDERR_FILENO) < 0)
                _exit(PYTHON_MISSING);
        execvp(python, arguments);
        _exit(PYTHON_MISSING);
}

static int run_one(const char *python, const char *program, const char *path, char **ret,
                   size_t *length, struct error *err)
{
        _cleanup_close_ int in = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), out = -1;
        int pipe_fds[2], status = 0;

        if (in < 0)
                return error_errno(err, errno, "%s", path);
        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        out = pipe_fds[0];
        pid_t pid = fork();
        if (pid == 0)
                run(python, program, in, pipe_fds[1]);
        int code = errno;
        close(pipe_fds[1]);
        if (pid < 0)
                return error_errno(err, code, "fork");
        int r = fd_read_whole(out, OUTPUT_MAX, ret, length, err);
        close(take_fd(out));
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return r < 0 ? r : WIFEXITED(status) ? WEXITSTATUS(status) : PYTHON_MISSING;
}

int python_program_run(const char *const *pythons, const char *program, const char *path,
                       char **ret, size_t *length, struct error *err)
{
        int r = PYTHON_MISSING;

        for (; *pythons && r > 0 && r != PYTHON_WRONG; pythons++) {
                free(*ret);
                *ret = NULL;
                r = run_one(*pythons, program, path, ret, length, err);
        }
        return r;
}
