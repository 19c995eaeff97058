/* Removes the control groups and sockets of monitors that were killed. */
#include "supervisor/monitor/cgroup/stale.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "policy/control-path.h"
#include "supervisor/monitor/cgroup/cgroup-tree.h"

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

bool stale_sockets_remove(const char *directory)
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
