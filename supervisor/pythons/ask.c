/* Asks a program which version of CPython it is. */
#include "supervisor/pythons/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { ANSWER_MAX = 64 };

/* CPython answers "-V" before it sets anything up, in a fifth of the time. Others print more or other lines; a version that is no
 * release, such as 3.14.0rc1, is refused with them. */
static const char answer_start[] = "Python ";

/* A script may be a shim or a wrapper of something else, and no image can be made of one. */
static int open_program(const char *path, uid_t owner, struct stat *st)
{
        char magic[4] = "";
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_mode & 0111 &&
            (st->st_uid == 0 || st->st_uid == owner) && !(st->st_mode & S_IWOTH) &&
            pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
            memcmp(magic, "\177ELF", sizeof(magic)) == 0)
                return fd;
        if (fd >= 0)
                close(fd);
        return -ENOEXEC;
}

static int become_owner(const struct stat *st)
{
        if (geteuid() != 0 || st->st_uid == 0)
                return 0;
        if (setgroups(0, NULL) < 0 || setresgid(st->st_gid, st->st_gid, st->st_gid) < 0 ||
            setresuid(st->st_uid, st->st_uid, st->st_uid) < 0)
                return -errno;
        return 0;
}

static int move_up(int fd)
{
        return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* Executes the file that was checked, whatever its path leads to by now. */
_Noreturn static void run(const char *path, int program, const struct stat *st, int out)
{
        const char *libraries = getenv("LD_LIBRARY_PATH");
        char variable[4096];
        char *const argv[] = {(char *)path, (char *)"-V", NULL};
        char *env[] = {(char *)"LC_ALL=C", NULL, NULL};
        /* Above the standard ones, of which the image reader has none. */
        int null = move_up(open("/dev/null", O_RDWR | O_CLOEXEC));

        out = move_up(out);
        program = move_up(program);

        /* Some interpreters find their libraries only with it. */
        if (libraries && (size_t)snprintf(variable, sizeof(variable), "LD_LIBRARY_PATH=%s",
                                          libraries) < sizeof(variable))
                env[1] = variable;
        setpgid(0, 0);
        if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
            dup2(null, STDERR_FILENO) < 0 || become_owner(st) < 0)
                _exit(127);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        signal(SIGPIPE, SIG_DFL);
        execveat(program, "", argv, env, AT_EMPTY_PATH);
        _exit(127);
}

/* Reads until the process has ended. Returns the length, -ETIMEDOUT, or -EMSGSIZE: it printed more than any answer has. */
static ssize_t read_answer(int fd, int pidfd, uint64_t until, char to[ANSWER_MAX])
{
        struct pollfd p[] = {{.fd = pidfd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        size_t n = 0;
        uint64_t now;

        while ((now = clock_us()) < until) {
                int r = poll(p, ARRAY_SIZE(p), (int)((until - now) / 1000) + 1);
                if (r < 0 && errno != EINTR)
                        return -errno;
                if (r <= 0)
                        continue;
                ssize_t got = p[1].revents ? read(fd, to + n, ANSWER_MAX - n) : 0;
                n += got > 0 ? (size_t)got : 0;
                if (n == ANSWER_MAX)
                        return -EMSGSIZE;
                if (p[1].revents && got <= 0)
                        p[1].fd = -1; /* it has closed it */
                if (p[0].revents && (!p[1].revents || got <= 0))
                        return (ssize_t)n;
        }
        return -ETIMEDOUT;
}

/* "Python 3.13.2\n" and nothing more. */
static bool parse(char *text, ssize_t n, struct python_version *ret)
{
        static const size_t start = sizeof(answer_start) - 1;

        if ((size_t)n <= start || memcmp(text, answer_start, start) != 0 || text[n - 1] != '\n' ||
            memchr(text, '\0', (size_t)n))
                return false;
        text[n - 1] = '\0';
        return python_version_parse(text + start, ret, NULL) == 0 && ret->patch != PYTHON_PATCH_ANY;
}

int python_ask(const char *path, uid_t owner, uint64_t until, struct python_version *ret)
{
        struct stat st;
        char answer[ANSWER_MAX];
        int ends[2], status = -1;

        _cleanup_close_ int program = open_program(path, owner, &st);
        if (program < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return 0;
        _cleanup_close_ int out = ends[0];
        pid_t pid = fork();
        if (pid == 0)
                run(path, program, &st, ends[1]);
        close(ends[1]);
        if (pid < 0)
                return 0;
        setpgid(pid, pid);
        _cleanup_close_ int pidfd = pidfd_open(pid, 0);
        ssize_t n = pidfd < 0 ? -errno : read_answer(out, pidfd, until, answer);
        /* Also what it may have started. */
        kill(-pid, SIGKILL);
        kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (n == -ETIMEDOUT)
                return -ETIMEDOUT;
        return n > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && parse(answer, n, ret);
}
