/*
 * Host directories in a template.
 *
 * Theory of operation. Only a process that has a mount in its own mount namespace can copy it, and
 * only the working directory is carried along into a new mount namespace. So a child process copies
 * each source: it enters the source and unshares its mount namespace. The copy is detached, belongs
 * to no namespace, and is passed on in the descriptor table, which the child shares. It includes the
 * mounts below the source, all with the same flags, so that what they cover stays hidden.
 *
 * Symbolic links in the image or in a source are never followed on the way to a target.
 */
#include "sandbox-init/setup/template-mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mount.h"

enum {
        STACK_SIZE = 64 * 1024,
        ROOM_SIZE = 256 * 1024,
        LATE_SIZE = 16 * 1024 * 1024,
        LATE_INODES = 4096,
        ENTRIES_MAX = 512, /* of a directory that gets another one beside what it has */
};

static const uint64_t image_attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

struct copying {
        int source;
        uint64_t attributes;
        int tree;
        struct error error;
};

static int copy_tree(void *data)
{
        struct copying *c = data;

        if (fchdir(c->source) < 0) {
                int code = errno;
                error_errno(&c->error, code, "enter the directory as the uid of sandboxes");
                c->error.code = code == EACCES ? MOUNT_CODE_TREE : code;
        } else if (unshare(CLONE_NEWNS) < 0) {
                error_errno(&c->error, errno, "unshare the mount namespace");
        } else {
                c->tree = mount_clone_tree(AT_FDCWD, "", c->attributes, &c->error);
        }
        _exit(0);
}

static int clone_one(const struct template_mount *mount, int source, int *ret, struct error *err)
{
        static char stack[STACK_SIZE] __attribute__((aligned(16)));
        struct copying c = {.source = source,
                            .attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          (mount->writable ? 0 : MOUNT_ATTR_RDONLY),
                            .tree = -1};

        pid_t pid = clone(copy_tree, stack + sizeof(stack),
                          CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &c);
        if (pid < 0)
                return error_errno(err, errno, "clone");
        waitpid(pid, NULL, 0);
        if (c.tree < 0) {
                if (!error_is_set(&c.error))
                        error_set(&c.error, EIO, "the copy was not made");
                error_context(&c.error, "mount for %s", mount->target);
                *err = c.error;
                return -c.error.code;
        }
        *ret = c.tree;
        return 0;
}

int mounts_clone(const struct template_plan *plan, const int *sources, struct template_mounts *ret,
                 struct error *err)
{
        int r = 0;

        ret->image = -1;
        for (uint32_t i = 0; i < plan->n_mounts && r >= 0; i++)
                r = clone_one(&plan->mounts[i], sources[i], &ret->trees[i], err);
        return r;
}

/* A new tmpfs, writable until all directories are made. */
static int new_room(struct template_mounts *m, struct error *err)
{
        if (m->n_made == ARRAY_SIZE(m->made))
                return error_set(err, E2BIG, "too many directories to make for mounts");
        int fd = mount_tmpfs_new(ROOM_SIZE, 2 * ENTRIES_MAX, 0755,
                                 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
        if (fd >= 0)
                m->made[m->n_made++] = fd;
        return fd;
}

static int show_link(int from, const char *name, int to, struct error *err)
{
        char target[4096];
        ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

        if (n < 0)
                return error_errno(err, errno, "read the link %s", name);
        target[n] = '\0';
        if (symlinkat(target, to, name) < 0)
                return error_errno(err, errno, "link %s", name);
        return 0;
}

/* Binds one entry of `from` into the attached tmpfs `to`. */
static int show_entry(int from, const char *name, int to, struct error *err)
{
        struct stat st;
        int r = 0;

        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return error_errno(err, errno, "%s", name);
        if (S_ISLNK(st.st_mode))
                return show_link(from, name, to, err);
        if (S_ISDIR(st.st_mode))
                r = mkdirat(to, name, 0755);
        else if (S_ISREG(st.st_mode))
                r = mknodat(to, name, S_IFREG | 0444, 0);
        else
                return 0;
        if (r < 0)
                return error_errno(err, errno, "make %s", name);
        _cleanup_close_ int copy = mount_clone(from, name, image_attributes, err);
        return copy < 0 ? copy : mount_attach(copy, to, name, err);
}

static int show_entries(int from, int to, struct error *err)
{
        size_t count = 0;
        int r = 0;

        DIR *dir = fdopendir(from);
        if (!dir) {
                close(from);
                return error_errno(err, errno, "list a directory of the image");
        }
        for (struct dirent *entry; r >= 0 && (entry = readdir(dir));) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (++count > ENTRIES_MAX)
                        r = error_set(err, E2BIG, "more than %d entries", ENTRIES_MAX);
                else
                        r = show_entry(dirfd(dir), entry->d_name, to, err);
        }
        closedir(dir);
        return r;
}

/* Mounts a tmpfs with the same entries over a directory, so that another entry can be made. */
static int make_room(struct template_mounts *m, int root, const char *path, struct error *err)
{
        _cleanup_close_ int point = mount_point_open(root, path, err);
        if (point < 0)
                return point;
        int from = openat(point, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (from < 0)
                return error_errno(err, errno, "open /%s of the image", path);
        int room = new_room(m, err);
        int r = room < 0 ? room : mount_attach(room, root, path, err);
        if (r < 0) {
                close(from);
                return r;
        }
        r = show_entries(from, room, err);
        return r < 0 ? error_context(err, "a directory in the image's /%s", path) : 0;
}

static bool first_is_missing(const char *target)
{
        char name[sizeof(((struct template_mount *)0)->target)];
        struct stat st;

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(target + 1, "/"), target + 1);
        return fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

int mounts_make_root(const struct template_plan *plan, struct template_mounts *mounts,
                     struct error *err)
{
        bool missing = false;

        for (uint32_t i = 0; i < plan->n_mounts; i++)
                missing = missing || first_is_missing(plan->mounts[i].target);
        if (!missing)
                return mount_clone(AT_FDCWD, "", image_attributes, err);
        mounts->image = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mounts->image < 0)
                return error_errno(err, errno, "open the root");
        return new_room(mounts, err);
}

int mounts_fill_root(struct template_mounts *mounts, int root, struct error *err)
{
        if (mounts->image < 0)
                return 0;
        int r = show_entries(take_fd(mounts->image), root, err);
        return r < 0 ? error_context(err, "the image's root") : 0;
}

/* The longest existing part of the target's path; "." is the root. */
static void deepest_there(int root, const char *target, char *ret, size_t size)
{
        snprintf(ret, size, "%s", target);
        for (char *slash; *ret;) {
                struct error ignored = {};
                _cleanup_close_ int fd = mount_point_open(root, ret, &ignored);
                if (fd >= 0)
                        return;
                slash = strrchr(ret, '/');
                *(slash ? slash : ret) = '\0';
        }
        snprintf(ret, size, ".");
}

static int make_target(const char *target, struct template_mounts *m, int root, struct error *err)
{
        char there[sizeof(((struct template_mount *)0)->target)];
        struct error why = {};

        _cleanup_close_ int point = mount_point_open(root, target, &why);
        if (point >= 0)
                return 0;
        if (point != -ENOENT) {
                *err = why;
                return point;
        }
        if (mount_point_make(root, target, &why) >= 0)
                return 0;
        deepest_there(root, target, there, sizeof(there));
        int r = make_room(m, root, there, err);
        return r < 0 ? r : mount_point_make(root, target, err);
}

/* Where the late ones wait, and where modules that are preloaded may write: a tmpfs over the
 * image's directory, which every session covers with its own. */
static int make_late_room(const struct template_plan *plan, int root, const char *path,
                          struct error *err)
{
        bool wanted = plan->preload[0] != '\0';
        size_t n = strlen(path);

        for (uint32_t i = 0; i < plan->n_mounts; i++)
                wanted = wanted || (strncmp(plan->mounts[i].target + 1, path, n) == 0 &&
                                    plan->mounts[i].target[n + 1] == '/');
        return wanted ? mount_tmpfs_at(root, path, LATE_SIZE, LATE_INODES, 01777, err) : 0;
}

static int attach_one(const struct template_plan *plan, struct template_mounts *m, int root,
                      uint32_t i, struct error *err)
{
        int r = make_target(plan->mounts[i].target + 1, m, root, err);

        if (r >= 0)
                r = mount_attach(m->trees[i], root, plan->mounts[i].target + 1, err);
        return r < 0 ? error_context(err, "mount on %s", plan->mounts[i].target) : 0;
}

int mounts_attach(const struct template_plan *plan, struct template_mounts *mounts, int root,
                  struct error *err)
{
        struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};

        int r = make_late_room(plan, root, "workspace", err);
        if (r >= 0)
                r = make_late_room(plan, root, "tmp", err);
        for (uint32_t i = 0; i < plan->n_mounts && r >= 0; i++)
                r = attach_one(plan, mounts, root, i, err);
        for (uint32_t i = 0; i < mounts->n_made && r >= 0; i++) {
                if (mount_setattr(mounts->made[i], "", AT_EMPTY_PATH, &read_only,
                                  sizeof(read_only)) < 0)
                        r = error_errno(err, errno, "make the mount read-only");
        }
        return r;
}
