/* The tree that layers are unpacked to. */
#include "rootfs/oci/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static int open_beneath(int root, const char *path, uint64_t flags)
{
        struct open_how how = {.flags = flags | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                          RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
        long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));

        return fd < 0 ? -errno : (int)fd;
}

static void forget_parent(struct tree *tree)
{
        if (tree->parent >= 0)
                close(tree->parent);
        tree->parent = -1;
}

void tree_done(struct tree *tree)
{
        forget_parent(tree);
}

/* Makes each missing directory of a path. */
static int make_parents(const struct tree *tree, const char *path)
{
        _cleanup_close_ int at = -1;
        char name[NAME_MAX + 1];

        for (const char *rest = path; *rest; rest += *rest == '/') {
                size_t n = strcspn(rest, "/");
                memcpy(name, rest, n);
                name[n] = '\0';
                rest += n;
                int above = at < 0 ? tree->root : at;
                if (mkdirat(above, name, TREE_IMPLIED) < 0 && errno != EEXIST)
                        return -errno;
                int next = open_beneath(above, name, O_PATH | O_DIRECTORY);
                if (next < 0)
                        return next;
                cleanup_close(&at);
                at = next;
        }
        return take_fd(at);
}

/* The directory of an entry, O_PATH, borrowed until the next call; made where it is missing. -ELOOP: a parent is a link,
 * -ENOTDIR: a parent is another file. */
static int open_parent(struct tree *tree, const char *path)
{
        if (tree->parent >= 0 && strcmp(tree->at, path) == 0)
                return tree->parent;
        forget_parent(tree);
        int fd = open_beneath(tree->root, path, O_PATH | O_DIRECTORY);
        if (fd == -ENOENT)
                fd = make_parents(tree, path);
        if (fd < 0)
                return fd;
        tree->parent = fd;
        memcpy(tree->at, path, strlen(path) + 1);
        return fd;
}

int tree_open(const struct tree *tree, const struct layer_name *name, uint64_t flags)
{
        char path[PATH_MAX + NAME_MAX + 2];

        if (snprintf(path, sizeof(path), "%s/%s", name->parent, name->base) >= PATH_MAX)
                return -ENAMETOOLONG;
        return open_beneath(tree->root, path, flags);
}

int tree_clear(int directory)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(directory, ".");
        int r = 0;

        if (!stream)
                return -errno;
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                r = tree_remove(directory, d->d_name);
        return r;
}

int tree_remove(int directory, const char *name)
{
        if (unlinkat(directory, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR)
                return -errno;
        _cleanup_close_ int below = openat(directory, name, DIRECTORY);
        int r = below < 0 ? -errno : tree_clear(below);
        return r < 0 ? r : unlinkat(directory, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Something else has the name. The last parent (tree->parent) may lie below it. */
static int make_room(struct tree *tree, const struct layer_name *name)
{
        int parent = open_parent(tree, name->parent);
        int r = parent < 0 ? parent : tree_remove(parent, name->base);

        if (r < 0)
                return r;
        forget_parent(tree);
        return open_parent(tree, name->parent);
}

int tree_make_directory(struct tree *tree, const struct layer_name *name, mode_t mode)
{
        int parent = open_parent(tree, name->parent);

        if (parent < 0)
                return parent;
        if (mkdirat(parent, name->base, mode) == 0)
                return 0;
        if (errno != EEXIST)
                return -errno;
        _cleanup_close_ int fd = openat(parent, name->base, DIRECTORY);
        if (fd >= 0)
                return fchmod(fd, mode) < 0 ? -errno : 0;
        parent = make_room(tree, name);
        if (parent < 0)
                return parent;
        return mkdirat(parent, name->base, mode) < 0 ? -errno : 0;
}

int tree_make_link(struct tree *tree, const struct layer_name *name, const char *target)
{
        int parent = open_parent(tree, name->parent);

        if (parent < 0)
                return parent;
        if (symlinkat(target, parent, name->base) == 0)
                return 0;
        if (errno != EEXIST)
                return -errno;
        parent = make_room(tree, name);
        if (parent < 0)
                return parent;
        return symlinkat(target, parent, name->base) < 0 ? -errno : 0;
}

int tree_make_file(struct tree *tree, const struct layer_name *name, mode_t mode)
{
        enum host_file kind = mode == 0755   ? HOST_FILE_IMAGE_PROGRAM
                              : mode == 0644 ? HOST_FILE_IMAGE_FILE
                                             : HOST_FILE_IMAGE_PRIVATE;
        int parent = open_parent(tree, name->parent);

        if (parent < 0)
                return parent;
        int fd = host_file_open(kind, parent, name->base, NULL);
        if (fd != -EEXIST)
                return fd;
        parent = make_room(tree, name);
        return parent < 0 ? parent : host_file_open(kind, parent, name->base, NULL);
}

int tree_make_whiteout(struct tree *tree, const struct layer_name *name)
{
        char marker[NAME_MAX + sizeof(WHITEOUT_PREFIX)];
        int parent = open_parent(tree, name->parent);

        if (parent < 0)
                return parent;
        snprintf(marker, sizeof(marker), "%s%s", *name->base ? WHITEOUT_PREFIX : WHITEOUT_OPAQUE,
                 name->base);
        _cleanup_close_ int fd = host_file_open(HOST_FILE_IMAGE_PRIVATE, parent, marker, NULL);
        /* No file has a name so long that a whiteout of it has none. */
        return fd < 0 && fd != -EEXIST && fd != -ENAMETOOLONG ? fd : 0;
}
