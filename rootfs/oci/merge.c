/* Puts layers over each other. */
#include "rootfs/oci/merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/printable.h"
#include "rootfs/oci/tree.h"

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

struct walk {
        struct error *err;
        struct merge_totals *totals;
        char path[PATH_MAX]; /* of the directory, "" or ending in a slash */
};

/* Enters a directory. Returns the length of the path before. */
static size_t enter(struct walk *w, const char *name)
{
        size_t length = strlen(w->path);

        snprintf(w->path + length, sizeof(w->path) - length, "%s/", name);
        return length;
}

static int fail(const struct walk *w, const char *name, int code)
{
        char path[PATH_MAX + NAME_MAX + 1], shown[200];

        if (error_is_set(w->err))
                return -w->err->code;
        snprintf(path, sizeof(path), "%s%s", w->path, name);
        printable_escape(shown, sizeof(shown), path);
        return error_errno(w->err, code, "\"%s\"", shown);
}

static bool is_whiteout(const char *name)
{
        return strncmp(name, WHITEOUT_PREFIX, sizeof(WHITEOUT_PREFIX) - 1) == 0;
}

static int hide(const struct walk *w, int layer, int root, const char *marker)
{
        int r = strcmp(marker, WHITEOUT_OPAQUE) == 0
                        ? tree_clear(root)
                        : tree_remove(root, marker + sizeof(WHITEOUT_PREFIX) - 1);

        if (r >= 0 && unlinkat(layer, marker, 0) < 0)
                r = -errno;
        return r < 0 ? fail(w, marker, -r) : 0;
}

static int hide_all(const struct walk *w, int layer, int root)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(layer, ".");
        int r = 0;

        if (!stream)
                return fail(w, ".", errno);
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                if (is_whiteout(d->d_name))
                        r = hide(w, layer, root, d->d_name);
        return r;
}

static int merge_directory(struct walk *w, int layer, int root);

/* Both have a directory of this name. */
static int merge_below(struct walk *w, int layer, int root, const char *name, mode_t mode)
{
        _cleanup_close_ int from = openat(layer, name, DIRECTORY);
        _cleanup_close_ int to = from < 0 ? -1 : openat(root, name, DIRECTORY);

        if (to < 0)
                return fail(w, name, errno);
        if ((mode & 0777) != TREE_IMPLIED && fchmod(to, mode & 0777) < 0)
                return fail(w, name, errno);
        size_t before = enter(w, name);
        int r = merge_directory(w, from, to);
        w->path[before] = '\0';
        if (r >= 0 && unlinkat(layer, name, AT_REMOVEDIR) < 0)
                return fail(w, name, errno);
        return r;
}

static int refuse_parent(const struct walk *w, const char *name, bool is_link)
{
        char path[PATH_MAX + NAME_MAX + 1], shown[200];

        snprintf(path, sizeof(path), "%s%s", w->path, name);
        printable_escape(shown, sizeof(shown), path);
        return error_set(w->err, is_link ? ELOOP : ENOTDIR,
                         "it has entries below \"%s\", which is a %s in a layer below it", shown,
                         is_link ? "symbolic link" : "file");
}

static int merge_entry(struct walk *w, int layer, int root, const char *name)
{
        struct stat ours, below;

        if (fstatat(layer, name, &ours, AT_SYMLINK_NOFOLLOW) < 0)
                return fail(w, name, errno);
        bool is_there = fstatat(root, name, &below, AT_SYMLINK_NOFOLLOW) == 0;
        if (is_there && S_ISDIR(ours.st_mode) && S_ISDIR(below.st_mode))
                return merge_below(w, layer, root, name, ours.st_mode);
        if (is_there && S_ISDIR(ours.st_mode) && (ours.st_mode & 0777) == TREE_IMPLIED)
                return refuse_parent(w, name, S_ISLNK(below.st_mode));
        /* A rename replaces a file by a file only. */
        int r = is_there && (S_ISDIR(ours.st_mode) || S_ISDIR(below.st_mode))
                        ? tree_remove(root, name)
                        : 0;
        if (r >= 0 && renameat(layer, name, root, name) < 0)
                r = -errno;
        return r < 0 ? fail(w, name, -r) : 0;
}

static int merge_directory(struct walk *w, int layer, int root)
{
        int r = hide_all(w, layer, root);
        _cleanup_closedir_ DIR *stream = r < 0 ? NULL : fd_open_directory(layer, ".");

        if (r < 0)
                return r;
        if (!stream)
                return fail(w, ".", errno);
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                r = merge_entry(w, layer, root, d->d_name);
        return r;
}

int merge_layer(int layer, int root, struct error *err)
{
        struct error ignored = {};
        struct walk w = {.err = err ? err : &ignored};

        return merge_directory(&w, layer, root);
}

/* ---- the end ---- */

static int finish_directory(struct walk *w, int directory);

static int remove_private(struct walk *w, int directory, const char *name)
{
        char path[PATH_MAX + NAME_MAX + 2];

        snprintf(path, sizeof(path), "/%s%s", w->path, name);
        private_files_add(&w->totals->private, path);
        int r = tree_remove(directory, name);
        return r < 0 ? fail(w, name, -r) : 0;
}

static int finish_below(struct walk *w, int directory, const char *name, mode_t mode)
{
        _cleanup_close_ int below = openat(directory, name, DIRECTORY);

        if (below < 0 || ((mode & 0777) != TREE_PUBLIC && fchmod(below, TREE_PUBLIC) < 0))
                return fail(w, name, errno);
        size_t before = enter(w, name);
        int r = finish_directory(w, below);
        w->path[before] = '\0';
        return r;
}

static int finish_entry(struct walk *w, int directory, const char *name)
{
        struct stat st;

        if (is_whiteout(name))
                return unlinkat(directory, name, 0) < 0 ? fail(w, name, errno) : 0;
        if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return fail(w, name, errno);
        /* Directories that no entry names are public. */
        if (private_files_has(&st, S_ISDIR(st.st_mode) && (st.st_mode & 0777) == TREE_IMPLIED
                                           ? 0
                                           : S_IRGRP | S_IROTH))
                return remove_private(w, directory, name);
        if (S_ISDIR(st.st_mode))
                return finish_below(w, directory, name, st.st_mode);
        w->totals->files++;
        if (S_ISREG(st.st_mode))
                w->totals->bytes += (uint64_t)st.st_size;
        return 0;
}

static int finish_directory(struct walk *w, int directory)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(directory, ".");
        int r = 0;

        if (!stream)
                return fail(w, ".", errno);
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                r = finish_entry(w, directory, d->d_name);
        return r;
}

int merge_finish(int root, struct merge_totals *ret, struct error *err)
{
        struct error ignored = {};
        struct merge_totals totals = {};
        struct walk w = {.err = err ? err : &ignored, .totals = &totals};

        int r = finish_directory(&w, root);
        if (r >= 0)
                *ret = totals;
        return r;
}
