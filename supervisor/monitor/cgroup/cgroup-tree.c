/* The directories of control groups. */
#include "supervisor/monitor/cgroup/cgroup-tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* Our tree has two levels, parent and leaf, and nothing else makes groups below them. */
enum { DEPTH_MAX = 4 };

int cgroup_write(int dir_fd, const char *file, const char *text)
{
        _cleanup_close_ int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);

        return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

int cgroup_write_number(int dir_fd, const char *file, uint64_t value)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, value);
        return cgroup_write(dir_fd, file, text);
}

int cgroup_read(int dir_fd, const char *file, char *text, size_t size)
{
        _cleanup_close_ int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        ssize_t n = fd_read_full(fd, text, size - 1);
        if (n < 0)
                return (int)n;
        text[n] = '\0';
        return (int)n;
}

uint64_t cgroup_read_number(int dir_fd, const char *file)
{
        char text[64];

        return cgroup_read(dir_fd, file, text, sizeof(text)) < 0 ? 0 : strtoull(text, NULL, 10);
}

uint64_t cgroup_read_key(int dir_fd, const char *file, const char *key)
{
        char text[4096];
        size_t n = strlen(key);

        if (cgroup_read(dir_fd, file, text, sizeof(text)) < 0)
                return 0;
        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, key, n) == 0 && line[n] == ' ')
                        return strtoull(line + n, NULL, 10);
        }
        return 0;
}

/* Version 1 has no cgroup.kill. Processes forked meanwhile are killed in the next round. */
static void kill_members(int dir_fd)
{
        _cleanup_close_ int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
        char text[64 * 1024];

        ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return;
        text[n] = '\0';
        char *rest = text;
        const char *line;
        while ((line = strsep(&rest, "\n"))) {
                int pid = atoi(line);
                if (pid > 0)
                        kill(pid, SIGKILL);
        }
}

static int remove_level(int parent_fd, const char *name, int depth);

static void remove_children(DIR *dir, int depth)
{
        struct dirent *entry;

        while ((entry = readdir(dir))) {
                if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                        remove_level(dirfd(dir), entry->d_name, depth + 1);
        }
}

/* Tries once. Returns 0 when the directory was removed. */
static int remove_level(int parent_fd, const char *name, int depth)
{
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
                return 0;
        if (depth == DEPTH_MAX)
                return -ELOOP;
        DIR *dir = fd_open_directory(parent_fd, name);
        if (!dir)
                return errno == ENOENT ? 0 : -errno;
        /* It kills the whole subtree; without processes the write does nothing. */
        if (cgroup_write(dirfd(dir), "cgroup.kill", "1") < 0)
                kill_members(dirfd(dir));
        remove_children(dir, depth);
        closedir(dir);
        return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

/* Sleeps a little longer each time. Returns the time slept in all, or -ETIMEDOUT when the next sleep
 * would exceed the timeout. */
static int nap(int waited_ms, int timeout_ms)
{
        int nap_ms = waited_ms < 50 ? waited_ms / 2 + 1 : 25;

        if (waited_ms + nap_ms > timeout_ms)
                return -ETIMEDOUT;
        nanosleep(&(struct timespec){.tv_nsec = nap_ms * 1000000L}, NULL);
        return waited_ms + nap_ms;
}

int cgroup_tree_remove(int parent_fd, const char *name, int timeout_ms)
{
        int waited = 0;

        for (;;) {
                int r = remove_level(parent_fd, name, 0);
                if (r != -EBUSY)
                        return r;
                waited = nap(waited, timeout_ms);
                if (waited < 0)
                        return r;
        }
}
