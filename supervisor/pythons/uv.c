/* Has uv download a CPython. */
#include "supervisor/pythons/uv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/printable.h"

enum { LINE_SIZE = 160 };

/* Only in absolute folders: PATH may have "." in it. */
static int find_uv(char ret[PATH_MAX])
{
        const char *path = getenv("PATH");

        for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
                size_t n = strcspn(at, ":");
                if (*at == '/' && snprintf(ret, PATH_MAX, "%.*s/uv", (int)n, at) < PATH_MAX &&
                    access(ret, X_OK) == 0)
                        return 0;
                at += n + (at[n] == ':');
        }
        return -ENOENT;
}

_Noreturn static void run(const char *uv, const char *version, int out)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        /* It also writes ~/.local/bin/python3.13 otherwise. */
        setenv("UV_PYTHON_INSTALL_BIN", "0", 1);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
            dup2(out, STDERR_FILENO) >= 0)
                execl(uv, "uv", "python", "install", "--color", "never", version, (char *)NULL);
        _exit(127);
}

/* A line that uv has printed: cut, and harmless on a terminal. */
struct line {
        char text[LINE_SIZE], last[2 * LINE_SIZE];
        size_t n;
};

static void end_line(struct line *line, void (*progress)(void *data, const char *text), void *data)
{
        line->text[line->n] = '\0';
        line->n = 0;
        if (line->text[strspn(line->text, " \t")] == '\0')
                return;
        printable_escape(line->last, sizeof(line->last), line->text);
        progress(data, line->last);
}

static void follow(int out, struct line *line, void (*progress)(void *data, const char *text),
                   void *data)
{
        char text[1024];
        ssize_t n;

        while ((n = read(out, text, sizeof(text))) != 0) {
                if (n < 0 && errno != EINTR)
                        break;
                for (ssize_t i = 0; i < n; i++) {
                        if (text[i] == '\n' || text[i] == '\r')
                                end_line(line, progress, data);
                        else if (line->n < sizeof(line->text) - 1 && text[i])
                                line->text[line->n++] = text[i];
                }
        }
        end_line(line, progress, data);
}

int uv_install(const char *version, void (*progress)(void *data, const char *text), void *data,
               char ret[PYTHON_PATH_SIZE], struct error *err)
{
        struct python_version wanted;
        struct line line = {};
        char uv[PATH_MAX];
        int ends[2], status = -1;

        int r = python_version_parse(version, &wanted, err);
        if (r < 0)
                return r;
        if (find_uv(uv) < 0)
                return error_set(
                        err, ENOENT,
                        "Python %s is not on this machine, and \"python_downloads\": \"allow\" needs uv, which is not in PATH",
                        version);
        snprintf(line.last, sizeof(line.last), "%s downloads Python %s", uv, version);
        progress(data, line.last);
        *line.last = '\0';
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "uv");
        _cleanup_close_ int out = ends[0];
        pid_t pid = fork();
        if (pid == 0)
                run(uv, version, ends[1]);
        int code = errno;
        close(ends[1]);
        if (pid < 0)
                return error_errno(err, code, "start uv");
        follow(out, &line, progress, data);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return error_set(err, EIO, "'uv python install %s' failed: %s", version,
                                 *line.last ? line.last : "it printed no error");
        if (pythons_find(&wanted, NULL, ret) == 0)
                return error_set(
                        err, ENOENT,
                        "'uv python install %s' ended without an error, but there is no Python %s",
                        version, version);
        return 0;
}
