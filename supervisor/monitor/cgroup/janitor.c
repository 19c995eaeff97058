/*
 * The janitor.
 *
 * Theory of operation. A monitor that is killed cannot clean up, and the kernel removes no control
 * group by itself, unlike namespaces and processes with a parent-death signal. The janitor holds
 * one descriptor, the read end of a pipe, and sleeps in read() until the kernel closes the write
 * end. After a monitor that was not killed it finds nothing to remove.
 *
 * One janitor is enough: what is left because it was killed, the janitor of the next monitor
 * removes. A monitor alone cannot, because it has given up CAP_DAC_OVERRIDE.
 */
#include "supervisor/monitor/cgroup/janitor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/control-path.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"

/* ---- control groups and sockets of monitors that were killed together with their janitors ---- */

/* Processes of a monitor that was killed just now take a moment to end, longer on a busy machine. */
enum { REMOVE_MS = 3000 };

/* Field 22 of /proc/PID/stat; 0 when there is no such process. */
static unsigned long long start_time(pid_t pid)
{
        char path[32], text[1024];
        unsigned long long value = 0;

        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        if (cgroup_read(AT_FDCWD, path, text, sizeof(text)) < 0)
                return 0;
        const char *rest = strrchr(text, ')');
        if (rest)
                sscanf(rest,
                       ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                       &value);
        return value;
}

int stale_group_name(char *ret, size_t size, struct error *err)
{
        unsigned long long started = start_time(getpid());

        if (started == 0)
                return error_set(err, EIO, "cgroup: /proc/%d/stat cannot be read", getpid());
        snprintf(ret, size, "cloister-%d-%llu", getpid(), started);
        return 0;
}

static bool is_stale_group(int directory_fd, const char *name)
{
        unsigned long long started;
        int pid, end = 0;

        if (sscanf(name, "cloister-%d-%llu%n", &pid, &started, &end) != 2 || name[end] != '\0')
                return false;
        unsigned long long now = pid > 0 ? start_time(pid) : 0;
        if (pid <= 0 || (now > 0 && now == started))
                return false;
        _cleanup_close_ int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

enum socket_state { KEPT, LISTENED, STALE };

/* connect() to a listening socket succeeds, or says EAGAIN when its queue is full. Between bind()
 * and listen() it is refused as well: a process that exists keeps its socket. */
static enum socket_state socket_state_of(const char *directory, const char *name)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        pid_t pid = control_pid_of(name);

        if (pid == 0 || kill(pid, 0) == 0 || errno != ESRCH)
                return KEPT;
        if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", directory,
                             name) >= sizeof(address.sun_path))
                return KEPT;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return KEPT;
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
                return LISTENED;
        return errno == ECONNREFUSED ? STALE : errno == EAGAIN ? LISTENED : KEPT;
}

void stale_groups_remove(const char *directory)
{
        DIR *dir = opendir(directory);
        struct dirent *entry;

        while (dir && (entry = readdir(dir))) {
                if (entry->d_type == DT_DIR && is_stale_group(dirfd(dir), entry->d_name))
                        cgroup_tree_remove(dirfd(dir), entry->d_name, REMOVE_MS);
        }
        if (dir)
                closedir(dir);
}

/* Removes the sockets PID.sock on which no process listens and whose process has ended. Returns whether a
 * process listens on one whose process has ended: the broker of a monitor that was killed just now,
 * or a server in another pid namespace. */
static bool stale_sockets_remove(const char *directory)
{
        DIR *dir = opendir(directory);
        struct dirent *entry;
        bool is_any_listened = false;

        while (dir && (entry = readdir(dir))) {
                enum socket_state state = socket_state_of(directory, entry->d_name);
                is_any_listened |= state == LISTENED;
                if (state == STALE)
                        unlinkat(dirfd(dir), entry->d_name, 0);
        }
        if (dir)
                closedir(dir);
        return is_any_listened;
}

enum {
        JANITOR_TIMEOUT_MS = 2000,
        FINISH_TIMEOUT_MS = 1000,
        SERVERS_MS = 2500, /* more than REAPER_GRACE_MS */
        AGAIN = 30,
        AGAIN_MS = 100,
};

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

/* Kills sandboxes, and no other process. Returns whether nothing is left. */
static bool remove_sandboxes(const char *path)
{
        char directory[PATH_MAX];

        _cleanup_close_ int own = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int above = open(directory_of(path, directory),
                                         O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (own < 0 || above < 0)
                return true;
        (void)cgroup_tree_remove(own, "sandboxes", 0);
        return cgroup_tree_prune(above, strrchr(path, '/') + 1) == 0;
}

/* The hierarchies hold the same processes, which are killed in all of them before the first wait. Servers have the time that
 * their reapers give them. */
static void clean(const char *const *paths, size_t n)
{
        bool is_left = true;

        for (int waited = 0; is_left && waited <= SERVERS_MS; waited += waited / 4 + 1) {
                if (waited > 0)
                        poll(NULL, 0, waited / 4 + 1);
                is_left = false;
                for (size_t i = 0; i < n; i++)
                        is_left |= !remove_sandboxes(paths[i]);
        }
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
                control_path_remove(socket);
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

void janitor_finish(pid_t pid, int pipe_fd, bool has_servers)
{
        close(pipe_fd);
        if (!has_servers)
                child_wait_in_time(pid, FINISH_TIMEOUT_MS, NULL);
}
