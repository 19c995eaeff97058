/*
 * Reads TOML with Python's tomllib.
 *
 * Debian packages no TOML parser for C, and each machine that runs Cloister has a CPython, from
 * which the images are built. The interpreter gets the file on standard input and loads no other
 * code (-I: no environment variables, no user directory; -S: no site-packages).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/cli/import.h"

enum { NO_PYTHON = 120, NO_TOMLLIB = 121, NOT_TOML = 122, JSON_MAX = 64 * 1024 * 1024 };

static const char program[] = "import sys, json\n"
                              "try:\n"
                              "    import tomllib\n"
                              "except ImportError:\n"
                              "    sys.exit(121)\n"
                              "try:\n"
                              "    document = tomllib.load(sys.stdin.buffer)\n"
                              "except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:\n"
                              "    sys.stdout.write(str(error))\n"
                              "    sys.exit(122)\n"
                              "json.dump(document, sys.stdout, default=str)\n";

/* python3 may be too old; a newer interpreter has its version in its name. */
static const char *const pythons[] = {
        "python3", "python3.14", "python3.13", "python3.12", "python3.11", "/usr/bin/python3",
};

static void run_python(const char *python, int in, int out)
{
        char *const arguments[] = {(char *)"python3", (char *)"-I",    (char *)"-S",
                                   (char *)"-c",      (char *)program, NULL};
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
            dup2(null, STDERR_FILENO) < 0)
                _exit(NO_PYTHON);
        execvp(python, arguments);
        _exit(NO_PYTHON);
}

/* Returns its exit status, or negative errno. */
static int ask(const char *python, const char *path, char **ret, size_t *length, struct error *err)
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
                run_python(python, in, pipe_fds[1]);
        int code = errno;
        close(pipe_fds[1]);
        if (pid < 0)
                return error_errno(err, code, "fork");
        int r = fd_read_whole(out, JSON_MAX, ret, length, err);
        close(take_fd(out));
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return r < 0 ? r : WIFEXITED(status) ? WEXITSTATUS(status) : NO_PYTHON;
}

int import_toml(const char *path, char **ret, size_t *length, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(pythons); i++) {
                _cleanup_free_ char *text = NULL;
                int r = ask(pythons[i], path, &text, length, err);
                if (r == 0)
                        *ret = take_ptr(text);
                if (r <= 0)
                        return r;
                if (r == NOT_TOML)
                        return error_set(err, EBADMSG, "%s: %s", path, text);
        }
        return error_set(err, ENOENT,
                         "%s: reading TOML needs a python3 of version 3.11 or later in PATH", path);
}
