/* Starts processes. */
#include "supervisor/cli/command/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { OUTPUT_MAX = 64 * 1024 * 1024 };

static int wait_for(pid_t pid)
{
        int status = 0;

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return status;
}

int process_read(void (*run)(const void *data, int out), const void *data, const char *what,
                 size_t most, char **ret, size_t *length, struct error *err)
{
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "%s", what);
        pid_t pid = fork();
        if (pid == 0)
                run(data, ends[1]);
        int code = errno;
        close(ends[1]);
        _cleanup_close_ int out = ends[0];
        if (pid < 0)
                return error_errno(err, code, "%s", what);
        int r = fd_read_whole(out, most, ret, length, err);
        close(take_fd(out));
        int status = wait_for(pid);
        return r < 0 ? r : status;
}

int process_start_apart(void (*run)(int socket, const void *data), const void *data,
                        const char *what, struct error *err)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "%s", what);
        _cleanup_close_ int ours = pair[0];
        _cleanup_close_ int theirs = pair[1];
        pid_t pid = fork();
        if (pid < 0)
                return error_errno(err, errno, "%s: start a process", what);
        if (pid == 0) {
                pid_t again = fork();
                if (again == 0)
                        run(theirs, data);
                _exit(again < 0 ? errno : 0);
        }
        int status = wait_for(pid);
        if (status != 0)
                return error_errno(err, WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD,
                                   "%s: start a process", what);
        return take_fd(ours);
}

/* ---- Python ---- */

struct python_program {
        const char *python, *program;
        int in;
};

static void run_program(const void *data, int out)
{
        const struct python_program *p = data;
        char *const arguments[] = {(char *)"python3", (char *)"-I",       (char *)"-S",
                                   (char *)"-c",      (char *)p->program, NULL};
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (dup2(p->in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
            dup2(null, STDERR_FILENO) >= 0)
                execvp(p->python, arguments);
        _exit(PYTHON_MISSING);
}

int python_program_run(const char *const *pythons, const char *program, const char *path,
                       char **ret, size_t *length, struct error *err)
{
        int r = PYTHON_MISSING;

        for (; *pythons && r > 0 && r != PYTHON_WRONG; pythons++) {
                _cleanup_close_ int in = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
                const struct python_program p = {*pythons, program, in};
                if (in < 0)
                        return error_errno(err, errno, "%s", path);
                free(take_ptr(*ret));
                r = process_read(run_program, &p, "fork", OUTPUT_MAX, ret, length, err);
                if (r >= 0)
                        r = WIFEXITED(r) ? WEXITSTATUS(r) : PYTHON_MISSING;
        }
        return r;
}
