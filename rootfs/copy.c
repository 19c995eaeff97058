/*
 * Copies what a plan lists, or an imported root file system.
 *
 * A root file system is untrusted: no symbolic link in it is followed, neither when it is read (O_NOFOLLOW, by
 * descriptors) nor when Cloister's own files are written to the copy.
 */
#include "rootfs/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/printable.h"
#include "rootfs/contents.h"

enum {
        CHUNK = 128 * 1024,
        DEPTH_MAX = 128,
        FILES_MAX = 4 * 1000 * 1000,
        DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

/* Copies in the kernel (copy_file_range) if both file systems support it. Blocks may be shared,
 * inodes and pages are not. Returns 1 when done, 0 when the caller has to read and write, or
 * negative errno. */
static int copy_in_kernel(int from, int to)
{
        bool begun = false;

        for (;;) {
                ssize_t n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0);
                if (n == 0)
                        return begun; /* no byte was copied: not supported on some file systems */
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO || begun))
                        return -errno;
                if (n < 0)
                        return 0;
                begun = true;
        }
}

static int copy_bytes(int from, int to, uint64_t size, char *chunk)
{
        if (size > CHUNK) {
                int r = copy_in_kernel(from, to);
                if (r != 0)
                        return r < 0 ? r : 0;
        }
        for (;;) {
                ssize_t n = fd_read_full(from, chunk, CHUNK);
                if (n < 0)
                        return (int)n;
                int r = fd_write_all(to, chunk, (size_t)n);
                if (r < 0)
                        return r;
                if (n < CHUNK)
                        return 0;
        }
}

static int create(int root, const char *path, bool executable)
{
        return host_file_open(executable ? HOST_FILE_IMAGE_PROGRAM : HOST_FILE_IMAGE_FILE, root,
                              path, NULL);
}

/* needed: permissions that the file must have. *size (may be NULL) is that of the file. */
static int copy_regular(int source_root, const char *source, mode_t needed, int root,
                        const char *path, char *chunk, uint64_t *size)
{
        struct stat st;
        _cleanup_close_ int from = openat(
                source_root, source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (from < 0 || fstat(from, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        if ((st.st_mode & needed) != needed)
                return -EACCES;
        _cleanup_close_ int to = create(root, path, st.st_mode & 0111);
        if (to < 0)
                return to;
        int r = copy_bytes(from, to, (uint64_t)st.st_size, chunk);
        if (r < 0)
                return r;
        struct timespec times[2] = {st.st_mtim, st.st_mtim};
        if (size)
                *size = (uint64_t)st.st_size;
        return futimens(to, times) < 0 ? -errno : 0;
}

static int write_text(int root, const struct plan_entry *entry)
{
        _cleanup_close_ int fd = create(root, entry->path + 1, entry->executable);

        return fd < 0 ? fd : fd_write_all(fd, entry->text, strlen(entry->text));
}

static int copy_planned(int root, const struct plan_entry *entry, mode_t needed, char *chunk)
{
        switch (entry->kind) {
        case PLAN_DIRECTORY:
                /* /lib of a host without merged /usr becomes a link to usr/lib in the image. */
                return mkdirat(root, entry->path + 1, 0755) < 0 && errno != EEXIST ? -errno : 0;
        case PLAN_LINK:
                return symlinkat(entry->text, root, entry->path + 1) < 0 ? -errno : 0;
        case PLAN_TEXT:
                return write_text(root, entry);
        case PLAN_FILE:
                return copy_regular(AT_FDCWD, entry->path, needed, root, entry->path + 1, chunk,
                                    NULL);
        }
        return -EINVAL;
}

/* A file of the host that was removed or became unreadable meanwhile. */
static bool may_be_missing(const struct plan_entry *entry, int r)
{
        return entry->kind == PLAN_FILE && !entry->required &&
               (r == -EACCES || r == -ENOENT || r == -EPERM || r == -ELOOP || r == -EINVAL);
}

int copy_plan(int root, const struct plan *plan, struct progress *progress, struct error *err)
{
        _cleanup_free_ char *chunk = malloc(CHUNK);

        if (!chunk)
                return error_errno(err, ENOMEM, "copy");
        for (size_t i = 0; i < plan->n; i++) {
                const struct plan_entry *entry = &plan->entries[i];
                int r = copy_planned(root, entry, plan->readers, chunk);
                if (r == -ENOSPC || r == -EDQUOT)
                        return r;
                if (r < 0 && !may_be_missing(entry, r))
                        return error_errno(err, -r, "copy %s", entry->path);
                progress_count(progress, "copying file", i + 1, plan->n);
        }
        return 0;
}

/* ---- a root file system ---- */

struct tree {
        struct tree_totals totals;
        struct progress *progress;
        struct error *err;
        char *chunk;
        int depth;
        mode_t readers;      /* permissions that a file must have */
        char path[PATH_MAX]; /* of the directory that is copied, "" or ending in a slash */
};

static int copy_link(int from, int to, const char *name)
{
        char target[4096];

        ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
        if (n < 0)
                return -errno;
        target[n] = '\0';
        return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static int copy_file(struct tree *t, int from, int to, const char *name)
{
        uint64_t size = 0;

        int r = copy_regular(from, name, t->readers, to, name, t->chunk, &size);
        if (r < 0)
                return r;
        t->totals.bytes += size;
        t->totals.files++;
        progress_count(t->progress, "copying file", t->totals.files, 0);
        return t->totals.files > FILES_MAX ? -E2BIG : 0;
}

static int copy_directory(struct tree *t, int from, int to);

static int copy_below(struct tree *t, int from, int to, const char *name)
{
        size_t length = strlen(t->path);

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
        snprintf(t->path + length, sizeof(t->path) - length, "%s/", name);
        int r = copy_directory(t, source, target);
        t->path[length] = '\0';
        t->depth--;
        return r;
}

static int copy_entry(struct tree *t, int from, int to, const char *name)
{
        char path[PATH_MAX];
        struct stat st;

        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (private_files_has(&st, t->readers)) {
                snprintf(path, sizeof(path), "/%s%s", t->path, name);
                private_files_add(&t->totals.private, path);
                return 0;
        }
        if (S_ISDIR(st.st_mode))
                return copy_below(t, from, to, name);
        if (S_ISLNK(st.st_mode))
                return copy_link(from, to, name);
        return S_ISREG(st.st_mode) ? copy_file(t, from, to, name) : -EINVAL;
}

static bool may_be_left_out(int r)
{
        return r == -EACCES || r == -EPERM || r == -EINVAL || r == -ENOENT || r == -ELOOP ||
               r == -ENXIO;
}

static int copy_directory(struct tree *t, int from, int to)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(from, ".");
        int r = 0;

        if (!stream)
                return -errno;
        for (struct dirent *d; r >= 0 && (d = readdir(stream));) {
                if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
                    (t->depth == 0 && plan_leaves_out(d->d_name)))
                        continue;
                r = copy_entry(t, from, to, d->d_name);
                if (may_be_left_out(r)) {
                        t->totals.left_out++;
                        r = 0;
                } else if (r < 0 && r != -ENOSPC && r != -EDQUOT && !error_is_set(t->err)) {
                        error_errno(t->err, -r, "copy %s", d->d_name);
                }
        }
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

int tree_put_ours(int root, const char *container, struct progress *progress, struct error *err)
{
        _cleanup_plan_ struct plan *plan = plan_new();

        if (!plan)
                return error_errno(err, ENOMEM, "image");
        int r = contents_plan_settings(plan, err);
        if (r >= 0 && container)
                r = plan_text(plan, CONTAINER_SETTINGS, container, false, err);
        if (r >= 0)
                r = make_room(root, plan, err);
        return r < 0 ? r : copy_plan(root, plan, progress, err);
}

int tree_copy(const char *from, int to, bool with_private, struct progress *progress,
              struct tree_totals *ret, struct error *err)
{
        _cleanup_free_ char *chunk = malloc(CHUNK);
        struct tree t = {.progress = progress,
                         .err = err,
                         .chunk = chunk,
                         .readers = with_private ? 0 : S_IRGRP | S_IROTH};
        _cleanup_close_ int source = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (!chunk)
                return error_errno(err, ENOMEM, "copy");
        if (source < 0)
                return error_errno(err, errno, "%s", from);
        int r = copy_directory(&t, source, to);
        if (r < 0) {
                if (r != -ENOSPC && r != -EDQUOT)
                        error_context(err, "%s", from);
                return r;
        }
        *ret = t.totals;
        return 0;
}
