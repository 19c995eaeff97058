/*
 * Copies an imported root file system to an image's root.
 *
 * The source is untrusted: no symbolic link in it is followed, neither when it is read (O_NOFOLLOW,
 * by descriptors) nor when Cloister's own files are written to the copy.
 */
#include "rootfs/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/contents.h"
#include "rootfs/copy.h"
#include "rootfs/plan.h"

enum {
        DEPTH_MAX = 128,
        FILES_MAX = 4 * 1000 * 1000,
        DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

struct tree {
        struct tree_totals totals;
        struct progress *progress;
        struct error *err;
        int depth;
};

/* Directories that a sandbox mounts over, and caches of package managers. */
static bool is_left_out(int depth, const char *name)
{
        static const char *const names[] = {"proc",      "sys", "dev",        "tmp",
                                            "workspace", "run", "lost+found", "boot"};

        for (size_t i = 0; depth == 0 && i < ARRAY_SIZE(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

static int copy_link(int from, int to, const char *name)
{
        char target[4096];

        ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
        if (n < 0)
                return -errno;
        target[n] = '\0';
        return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static int copy_regular(struct tree *t, int from, int to, const char *name)
{
        struct stat st;
        _cleanup_close_ int source = openat(
                from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (source < 0 || fstat(source, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        _cleanup_close_ int target = openat(to, name,
                                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                            st.st_mode & 0111 ? 0755 : 0644);
        if (target < 0)
                return -errno;
        int r = copy_content(source, target, (uint64_t)st.st_size);
        if (r < 0)
                return r;
        struct timespec times[2] = {st.st_mtim, st.st_mtim};
        if (futimens(target, times) < 0)
                return -errno;
        t->totals.bytes += (uint64_t)st.st_size;
        t->totals.files++;
        progress_count(t->progress, "copying file", t->totals.files, 0);
        return t->totals.files > FILES_MAX ? -E2BIG : 0;
}

static int copy_directory(struct tree *t, int from, int to);

static int copy_below(struct tree *t, int from, int to, const char *name)
{
        _cleanup_close_ int source = openat(from, name, DIRECTORY);

        if (source < 0)
                return -errno;
        if (t->depth == DEPTH_MAX)
                return -ELOOP;
        if (mkdirat(to, name, 0755) < 0)
                return -errno;
        _cleanup_close_ int target = openat(to, name, DIRECTORY);
        if (target < 0)
                return -errno;
        t->depth++;
        int r = copy_directory(t, source, target);
        t->depth--;
        return r;
}

static int copy_entry(struct tree *t, int from, int to, const char *name)
{
        struct stat st;

        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return copy_below(t, from, to, name);
        if (S_ISLNK(st.st_mode))
                return copy_link(from, to, name);
        return S_ISREG(st.st_mode) ? copy_regular(t, from, to, name) : -EINVAL;
}

static bool may_be_left_out(int r)
{
        return r == -EACCES || r == -EPERM || r == -EINVAL || r == -ENOENT || r == -ELOOP ||
               r == -ENXIO;
}

static int copy_directory(struct tree *t, int from, int to)
{
        DIR *stream = fd_open_directory(from, ".");
        int r = 0;

        if (!stream)
                return -errno;
        for (struct dirent *d; r >= 0 && (d = readdir(stream));) {
                if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
                    is_left_out(t->depth, d->d_name))
                        continue;
                r = copy_entry(t, from, to, d->d_name);
                if (may_be_left_out(r)) {
                        t->totals.left_out++;
                        r = 0;
                } else if (r < 0 && r != -ENOSPC && r != -EDQUOT && !error_is_set(t->err)) {
                        error_errno(t->err, -r, "copy %s", d->d_name);
                }
        }
        closedir(stream);
        return r;
}

/* Replaces an entry of the tree by that of the plan. A link there must not be followed. */
static int make_room(int root, const struct plan *plan, struct error *err)
{
        struct stat st;

        for (size_t i = 0; i < plan->n; i++) {
                const struct plan_entry *entry = &plan->entries[i];
                if (fstatat(root, entry->path + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (entry->kind == PLAN_DIRECTORY && !S_ISDIR(st.st_mode))
                        return error_set(err, ENOTDIR, "%s is not a directory there", entry->path);
                if (entry->kind != PLAN_DIRECTORY && unlinkat(root, entry->path + 1, 0) < 0)
                        return error_errno(err, errno, "replace %s", entry->path);
        }
        return 0;
}

static int put_ours(int root, struct progress *progress, struct error *err)
{
        _cleanup_plan_ struct plan *plan = plan_new();

        if (!plan)
                return error_errno(err, ENOMEM, "image");
        int r = contents_plan_settings(plan, err);
        if (r >= 0)
                r = make_room(root, plan, err);
        return r < 0 ? r : copy_plan(root, plan, progress, err);
}

int tree_copy(const char *from, int to, struct progress *progress, struct tree_totals *ret,
              struct error *err)
{
        struct tree t = {.progress = progress, .err = err};
        _cleanup_close_ int source = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (source < 0)
                return error_errno(err, errno, "%s", from);
        int r = copy_directory(&t, source, to);
        if (r < 0) {
                if (r != -ENOSPC && r != -EDQUOT)
                        error_context(err, "%s", from);
                return r;
        }
        r = put_ours(to, progress, err);
        if (r < 0 && r != -ENOSPC && r != -EDQUOT)
                return error_context(err, "%s", from);
        *ret = t.totals;
        return r;
}
