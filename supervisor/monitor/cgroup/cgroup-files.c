/* The files of control groups. */
#include "supervisor/monitor/cgroup/cgroup-files.h"

#include <assert.h>
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
#include "base/mount.h"

/*
 * Where this process is in each cgroup hierarchy.
 *
 * A mount may show only a part of its hierarchy (field "root" of mountinfo, in a container without
 * a cgroup namespace), and the path in /proc/self/cgroup is relative to the root of the cgroup
 * namespace. Our directory is the mount point plus the part of the path below the mount's root. If
 * the path is not below it, the mount does not show our group.
 */

enum { PROC_FILE_MAX = 16 * 1024 * 1024 };

static const struct {
        const char *name;
        enum cgroup_controller bit;
} controller_names[] = {
        {"memory", CGROUP_MEMORY},
        {"pids", CGROUP_PIDS},
        {"cpu", CGROUP_CPU},
        {"cpuacct", CGROUP_CPUACCT},
};

static unsigned controllers_of(const char *list, size_t n)
{
        unsigned bits = 0;

        for (const char *end = list + n; list < end;) {
                size_t length = 0;
                while (list + length < end && list[length] != ',')
                        length++;
                for (size_t i = 0; i < ARRAY_SIZE(controller_names); i++) {
                        const char *name = controller_names[i].name;
                        if (strlen(name) == length && strncmp(name, list, length) == 0)
                                bits |= controller_names[i].bit;
                }
                list += length + 1;
        }
        return bits;
}

static bool has_option(const char *options, const char *name)
{
        size_t n = strlen(name);

        for (const char *at = options; *at; at += *at == ',') {
                size_t length = strcspn(at, ",");
                if (length == n && strncmp(at, name, n) == 0)
                        return true;
                at += length;
        }
        return false;
}

/* The path of "N:controllers:path" for a hierarchy (bits; CGROUP_UNIFIED: the line "0::"). Not
 * terminated. */
static const char *own_path(const char *self, unsigned bits, size_t *ret_length)
{
        for (const char *line = self; *line;) {
                size_t length = strcspn(line, "\n");
                const char *first = memchr(line, ':', length);
                const char *second = first ? strchr(first + 1, ':') : NULL;
                if (second && second < line + length) {
                        size_t n = (size_t)(second - first) - 1;
                        bool unified = n == 0 && strncmp(line, "0:", 2) == 0;
                        if (bits == CGROUP_UNIFIED ? unified
                                                   : (controllers_of(first + 1, n) & bits) != 0) {
                                *ret_length = (size_t)(line + length - second) - 1;
                                return second + 1;
                        }
                }
                line += length + (line[length] == '\n');
        }
        return NULL;
}

/* Removes the mount's root from the path. Returns NULL when the path is not below it. */
static const char *below_root(const char *root, const char *path, size_t *length)
{
        size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

        if (*length < n || strncmp(path, root, n) != 0 || (*length > n && path[n] != '/'))
                return NULL;
        path += n;
        *length -= n;
        if (*length == 1)
                *length = 0;
        /* "/../x": outside the namespace's root. */
        return *length >= 3 && strncmp(path, "/..", 3) == 0 ? NULL : path;
}

struct mount_line {
        char root[PATH_MAX], point[PATH_MAX];
        char type[32];
        char options[1024]; /* of the super block: version 1 has its controllers there */
};

static bool parse_mount(const char *line, struct mount_line *ret)
{
        char text[3 * PATH_MAX];
        size_t n = strcspn(line, "\n");

        if (n >= sizeof(text))
                return false;
        memcpy(text, line, n);
        text[n] = '\0';
        static_assert(PATH_MAX == 4096, "the widths below");
        if (sscanf(text, "%*s %*s %*s %4095s %4095s", ret->root, ret->point) != 2)
                return false;
        /* It was cut. */
        if (strlen(ret->root) == PATH_MAX - 1 || strlen(ret->point) == PATH_MAX - 1)
                return false;
        const char *rest = strstr(text, " - ");
        if (!rest || sscanf(rest, " - %31s %*s %1023s", ret->type, ret->options) != 2)
                return false;
        mount_unescape(ret->root);
        mount_unescape(ret->point);
        return true;
}

static void add_place(struct cgroup_places *ret, const struct mount_line *mount, const char *self)
{
        unsigned bits = 0;
        size_t length = 0;

        if (strcmp(mount->type, "cgroup2") == 0)
                bits = CGROUP_UNIFIED;
        else if (strcmp(mount->type, "cgroup") == 0)
                bits = controllers_of(mount->options, strlen(mount->options));
        if (!bits || ret->count == CGROUP_PLACES_MAX || cgroup_place_of(ret, bits))
                return;
        const char *path = own_path(self, bits, &length);
        path = path ? below_root(mount->root, path, &length) : NULL;
        if (!path)
                return;
        struct cgroup_place *place = &ret->items[ret->count];
        place->controllers = bits;
        place->nsdelegate = bits == CGROUP_UNIFIED && has_option(mount->options, "nsdelegate");
        snprintf(place->mount, sizeof(place->mount), "%s", mount->point);
        int n = snprintf(place->own, sizeof(place->own), "%s%.*s", mount->point, (int)length, path);
        if (n > 0 && (size_t)n < sizeof(place->own))
                ret->count++;
}

void cgroup_places_parse(const char *mountinfo, const char *self, struct cgroup_places *ret)
{
        struct mount_line mount;

        ret->count = 0;
        for (const char *line = mountinfo; *line;) {
                size_t n = strcspn(line, "\n");
                if (parse_mount(line, &mount))
                        add_place(ret, &mount, self);
                line += n + (line[n] == '\n');
        }
}

static int read_file(const char *path, char **ret, struct error *err)
{
        size_t length;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        return fd_read_whole(fd, PROC_FILE_MAX, ret, &length, err);
}

int cgroup_places_read(struct cgroup_places **ret, struct error *err)
{
        _cleanup_free_ char *mountinfo = NULL, *self = NULL;

        int r = read_file("/proc/self/mountinfo", &mountinfo, err);
        if (r >= 0)
                r = read_file("/proc/self/cgroup", &self, err);
        if (r < 0)
                return r;
        struct cgroup_places *places = calloc(1, sizeof(*places));
        if (!places)
                return error_errno(err, ENOMEM, "cgroup");
        cgroup_places_parse(mountinfo, self, places);
        *ret = places;
        return 0;
}

const struct cgroup_place *cgroup_place_of(const struct cgroup_places *places,
                                           enum cgroup_controller controller)
{
        for (size_t i = 0; i < places->count; i++) {
                if (places->items[i].controllers & controller)
                        return &places->items[i];
        }
        return NULL;
}

/* ---- the directories of control groups ---- */

/* Our tree has four levels (cgroup.h), and nothing else makes groups below them. */
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

static int remove_level(int parent_fd, const char *name, int depth, bool kills);

static void remove_children(DIR *dir, int depth, bool kills)
{
        struct dirent *entry;

        while ((entry = readdir(dir))) {
                if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                        remove_level(dirfd(dir), entry->d_name, depth + 1, kills);
        }
}

/* Tries once. Returns 0 when the directory was removed. */
static int remove_level(int parent_fd, const char *name, int depth, bool kills)
{
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
                return 0;
        if (depth == DEPTH_MAX)
                return -ELOOP;
        DIR *dir = fd_open_directory(parent_fd, name);
        if (!dir)
                return errno == ENOENT ? 0 : -errno;
        /* It kills the whole subtree; without processes the write does nothing. */
        if (kills && cgroup_write(dirfd(dir), "cgroup.kill", "1") < 0)
                kill_members(dirfd(dir));
        remove_children(dir, depth, kills);
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
                int r = remove_level(parent_fd, name, 0, true);
                if (r != -EBUSY)
                        return r;
                waited = nap(waited, timeout_ms);
                if (waited < 0)
                        return r;
        }
}

int cgroup_tree_prune(int parent_fd, const char *name)
{
        return remove_level(parent_fd, name, 0, false);
}

enum { REMOVE_ALL_MS = 500 };

static int make_parent(struct hierarchy *h, const char *name)
{
        struct stat st;

        /* Twice: a janitor may have removed the directory as stale before it was locked. */
        for (int i = 0; i < 2; i++) {
                if (mkdirat(h->base_fd, name, 0711) < 0 && errno != EEXIST)
                        return -errno;
                h->parent_fd = openat(h->base_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (h->parent_fd >= 0 && flock(h->parent_fd, LOCK_EX | LOCK_NB) == 0 &&
                    fstatat(h->base_fd, name, &st, 0) == 0)
                        return 0;
                cleanup_close(&h->parent_fd);
                h->parent_fd = -1;
        }
        return -EAGAIN;
}

static void hierarchy_done(struct hierarchy *h)
{
        free(h->base_path);
        free(h->path);
        cleanup_close(&h->base_fd);
        cleanup_close(&h->parent_fd);
        cleanup_close(&h->fd);
        cleanup_close(&h->home_fd);
}

/* Before Linux 5.11, a limit of version 1 counts the groups below only if use_hierarchy was set before they were made. */
static int make_sandboxes(struct hierarchy *h)
{
        (void)cgroup_write(h->parent_fd, "memory.use_hierarchy", "1");
        if (mkdirat(h->parent_fd, "sandboxes", 0711) < 0 && errno != EEXIST)
                return -errno;
        h->fd = openat(h->parent_fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return h->fd < 0 ? -errno : 0;
}

int cgroup_add_hierarchy(struct cgroups *cgroups, unsigned controllers, const char *base,
                         struct error *err)
{
        struct hierarchy h = {.controllers = controllers,
                              .base_fd = -1,
                              .parent_fd = -1,
                              .fd = -1,
                              .home_fd = -1};
        int r = -ENOMEM;

        h.base_path = strdup(base);
        if (!h.base_path || asprintf(&h.path, "%s/%s", base, cgroups->name) < 0) {
                h.path = NULL;
        } else {
                h.base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                r = h.base_fd < 0 ? -errno : make_parent(&h, cgroups->name);
                if (r >= 0)
                        r = make_sandboxes(&h);
        }
        if (r < 0) {
                /* Another monitor of this name, in another pid namespace, has locked its own. */
                if (h.parent_fd >= 0)
                        cgroup_tree_remove(h.base_fd, cgroups->name, 0);
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
                struct hierarchy *h = &cgroups->items[i];
                if (h->home_fd >= 0)
                        (void)cgroup_write(h->home_fd, "cgroup.procs", "0");
                cgroup_tree_remove(h->parent_fd, "sandboxes", REMOVE_ALL_MS);
                cgroup_tree_prune(h->base_fd, cgroups->name);
                hierarchy_done(h);
        }
        cgroups->count = 0;
}

bool cgroup_is_used_in(const struct cgroup *cgroup, size_t hierarchy)
{
        bool is_beside_sandboxes = cgroup->name[0] == '.';

        return !is_beside_sandboxes || cgroup->owner->operations->version == CGROUP_V2 ||
               !(cgroup->owner->items[hierarchy].controllers & CGROUP_CPU);
}

int cgroup_leaf_fd(const struct cgroup *cgroup, enum cgroup_controller controller)
{
        for (size_t i = 0; i < cgroup->owner->count; i++) {
                if (cgroup->owner->items[i].controllers & controller)
                        return cgroup->fds[i];
        }
        return -1;
}

static int cgroup_set(const struct cgroup *cgroup, enum cgroup_controller controller,
                      const char *file, const char *text, struct error *err)
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
