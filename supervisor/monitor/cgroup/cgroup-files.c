/* The files of control groups. */
#include "supervisor/monitor/cgroup/cgroup-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* ---- the directories of control groups ---- */

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

enum { REMOVE_ALL_MS = 500 };

static int make_parent(struct hierarchy *h, const char *name)
{
        struct stat st;

        /* Twice: a janitor may have removed the directory as stale before it was locked. */
        for (int i = 0; i < 2; i++) {
                if (mkdirat(h->base_fd, name, 0711) < 0 && errno != EEXIST)
                        return -errno;
                h->fd = openat(h->base_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (h->fd >= 0 && flock(h->fd, LOCK_EX | LOCK_NB) == 0 &&
                    fstatat(h->base_fd, name, &st, 0) == 0)
                        return 0;
                cleanup_close(&h->fd);
                h->fd = -1;
        }
        return -EAGAIN;
}

static void hierarchy_done(struct hierarchy *h)
{
        free(h->base_path);
        free(h->path);
        cleanup_close(&h->base_fd);
        cleanup_close(&h->fd);
}

int cgroup_add_hierarchy(struct cgroups *cgroups, unsigned controllers, const char *base,
                         struct error *err)
{
        struct hierarchy h = {.controllers = controllers, .base_fd = -1, .fd = -1};
        int r = -ENOMEM;

        h.base_path = strdup(base);
        if (!h.base_path || asprintf(&h.path, "%s/%s", base, cgroups->name) < 0) {
                h.path = NULL;
        } else {
                h.base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                r = h.base_fd < 0 ? -errno : make_parent(&h, cgroups->name);
        }
        if (r < 0) {
                if (h.base_fd >= 0)
                        unlinkat(h.base_fd, cgroups->name, AT_REMOVEDIR);
                error_errno(err, -r, "cgroup: make a directory in %s", base);
                hierarchy_done(&h);
                return r;
        }
        cgroups->items[cgroups->count++] = h;
        return 0;
}

void cgroups_forget_hierarchies(struct cgroups *cgroups)
{
        for (size_t i = 0; i < cgroups->count; i++) {
                if (cgroups->items[i].base_fd >= 0)
                        cgroup_tree_remove(cgroups->items[i].base_fd, cgroups->name, REMOVE_ALL_MS);
                hierarchy_done(&cgroups->items[i]);
        }
        cgroups->count = 0;
}

int cgroup_leaf_fd(const struct cgroup *cgroup, enum cgroup_controller controller)
{
        for (size_t i = 0; i < cgroup->owner->count; i++) {
                if (cgroup->owner->items[i].controllers & controller)
                        return cgroup->fds[i];
        }
        return -1;
}

int cgroup_set(const struct cgroup *cgroup, enum cgroup_controller controller, const char *file,
               const char *text, struct error *err)
{
        int r = cgroup_write(cgroup_leaf_fd(cgroup, controller), file, text);

        return r < 0 ? error_errno(err, -r, "cgroup: write %s to %s", text, file) : 0;
}

int cgroup_set_number(const struct cgroup *cgroup, enum cgroup_controller controller,
                      const char *file, uint64_t value, struct error *err)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, value);
        return cgroup_set(cgroup, controller, file, text, err);
}
