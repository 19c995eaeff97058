/* The files of control groups. */
#include "supervisor/monitor/cgroup/cgroup-files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/cgroup/cgroup-tree.h"

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
