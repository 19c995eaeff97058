/*
 * The janitor.
 *
 * Theory of operation. A monitor that is killed cannot clean up, and the kernel removes no control
 * group by itself, unlike namespaces and processes with a parent-death signal. The janitor holds
 * one descriptor, the read end of a pipe, and sleeps in read() until the kernel closes the write
 * end. After a monitor that was not killed it finds nothing to remove.
 *
 * One janitor is enough: when both are killed, the janitor of the next monitor removes the groups
 * and the socket of this one.
 */
#include "supervisor/monitor/cgroup/janitor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "supervisor/monitor/cgroup/cgroup-tree.h"
#include "supervisor/monitor/cgroup/stale.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"

enum { JANITOR_TIMEOUT_MS = 2000, FINISH_TIMEOUT_MS = 1000, AGAIN = 30, AGAIN_MS = 100 };

static const char *directory_of(const char *path, char ret[PATH_MAX])
{
        snprintf(ret, PATH_MAX, "%.*s", (int)(strrchr(path, '/') - path), path);
        return ret;
}

/* A process that was killed just now takes a moment to end, and listens meanwhile. */
static void remove_stale_sockets(const char *socket, int pipe_fd)
{
        struct pollfd monitor = {.fd = pipe_fd, .events = POLLIN};
        char directory[PATH_MAX];

        directory_of(socket, directory);
        for (int i = 0; stale_sockets_remove(directory) && i < AGAIN; i++) {
                if (poll(&monitor, 1, AGAIN_MS) != 0)
                        break;
        }
}

static void remove_stale_groups(const char *const *paths, size_t n)
{
        char directory[PATH_MAX];

        for (size_t i = 0; i < n; i++)
                stale_groups_remove(directory_of(paths[i], directory));
}

static int remove_path(const char *path, int timeout_ms)
{
        char directory[PATH_MAX];

        _cleanup_close_ int fd = open(directory_of(path, directory),
                                      O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : cgroup_tree_remove(fd, strrchr(path, '/') + 1, timeout_ms);
}

/* One try for each first: the hierarchies hold the same processes, which are then killed in all of
 * them before the first wait. */
static void clean(const char *const *paths, size_t n)
{
        for (size_t i = 0; i < n; i++)
                remove_path(paths[i], 0);
        for (size_t i = 0; i < n; i++)
                remove_path(paths[i], JANITOR_TIMEOUT_MS);
}

_Noreturn static void run(int pipe_fd, const char *const *paths, size_t n, const char *socket)
{
        sigset_t all;
        char byte;

        child_close_all_but(&pipe_fd, 1);
        setsid();
        child_hide("cloister-janitor");
        /* A signal to the monitor's process group or session must not end the janitor. */
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        /* The root directory of a cgroup mount has mode 0555: root needs CAP_DAC_OVERRIDE to remove
         * directories in it. */
        (void)ids_keep_capabilities(UINT64_C(1) << CAP_DAC_OVERRIDE, NULL);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        (void)!chdir("/");
        remove_stale_groups(paths, n);
        if (socket)
                remove_stale_sockets(socket, pipe_fd);
        while (read(pipe_fd, &byte, 1) < 0 && errno == EINTR)
                ;
        if (socket)
                path_remove_with_directory(socket);
        clean(paths, n);
        _exit(0);
}

pid_t janitor_start(const char *const *paths, size_t n, const char *socket, int *pipe_fd,
                    struct error *err)
{
        int ends[2];

        if (n > JANITOR_PATHS_MAX)
                return error_set(err, E2BIG, "janitor: %zu paths", n);
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "janitor: pipe");
        pid_t pid = fork();
        if (pid == 0)
                run(ends[0], paths, n, socket);
        int code = errno;
        close(ends[0]);
        if (pid < 0) {
                close(ends[1]);
                return error_errno(err, code, "janitor: fork");
        }
        *pipe_fd = ends[1];
        return pid;
}

void janitor_finish(pid_t pid, int pipe_fd)
{
        close(pipe_fd);
        child_wait_in_time(pid, FINISH_TIMEOUT_MS, NULL);
}
