/* Builds the broker's root with the mount API, by descriptors. */
#include "supervisor/broker/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mount.h"

enum { TMPFS_SIZE = 64 * 1024, TMPFS_INODES = 256 };

/* Directories besides /etc that are bound read-only if they exist. */
static const char *const read_only[] = {
        "/usr/share/ca-certificates",
        "/usr/local/share/ca-certificates",
        "/usr/share/pki",
        "/var/lib/ca-certificates",
        NULL,
};

/* Makes each directory of an absolute path below root. */
static int make_path(int root, const char *path, struct error *err)
{
        char made[PATH_MAX];

        for (const char *at = path; *at;) {
                at += strspn(at, "/");
                at += strcspn(at, "/");
                snprintf(made, sizeof(made), ".%.*s", (int)(at - path), path);
                if (mkdirat(root, made, 0755) < 0 && errno != EEXIST)
                        return error_errno(err, errno, "make %s in the broker's root", path);
        }
        return 0;
}

/*
 * Binds a host directory with its subtree: in another user namespace, the kernel refuses a bind
 * mount that would uncover what is below a mount.
 */
static int bind_directory(int root, const char *source, const char *target, bool writable,
                          struct error *err)
{
        struct mount_attr attr = {
                .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                            (writable ? 0 : MOUNT_ATTR_RDONLY),
        };
        char relative[PATH_MAX];

        _cleanup_close_ int tree = open_tree(AT_FDCWD, source,
                                             OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        if (tree < 0)
                return error_errno(err, errno, "bind %s", source);
        if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
                return error_errno(err, errno, "restrict the mount of %s", source);
        int r = make_path(root, target, err);
        if (r < 0)
                return r;
        snprintf(relative, sizeof(relative), ".%s", target);
        if (move_mount(tree, "", root, relative, MOVE_MOUNT_F_EMPTY_PATH) < 0)
                return error_errno(err, errno, "bind %s", source);
        return 0;
}

static bool is_below(const char *path, const char *directory)
{
        size_t n = strlen(directory);

        return strncmp(path, directory, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* The directory that /etc/resolv.conf links to, unless it is /etc. */
static int bind_resolver(int root, struct error *err)
{
        char path[PATH_MAX];

        if (!realpath("/etc/resolv.conf", path) || is_below(path, "/etc"))
                return 0;
        char *slash = strrchr(path, '/');
        if (slash == path)
                return 0;
        *slash = '\0';
        return bind_directory(root, path, path, false, err);
}

/* The files that libcurl and the resolver read. */
static int bind_network(int root, bool has_certificates, struct error *err)
{
        int r = bind_directory(root, "/etc", "/etc", false, err);

        for (const char *const *path = read_only; has_certificates && *path; path++) {
                if (access(*path, F_OK) == 0)
                        bind_directory(root, *path, *path, false, NULL);
        }
        return r < 0 ? r : bind_resolver(root, err);
}

static int fill(int root, const char *state_path, enum root_network network, struct error *err)
{
        int r = network == ROOT_ALONE ? 0 : bind_network(root, network == ROOT_HTTP, err);

        if (r >= 0 && state_path)
                r = bind_directory(root, state_path, ROOT_STATE, true, err);
        return r;
}

static int pivot(int root, struct error *err)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

        int r = mount_become_root(root, err);
        if (r < 0)
                return error_context(err, "the broker's root");
        if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
                return error_errno(err, errno, "make the broker's root read-only");
        return 0;
}

int root_change(const char *state_path, enum root_network network, struct error *err)
{
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_errno(err, errno, "make the broker's mounts private");
        _cleanup_close_ int root = mount_tmpfs_new(
                TMPFS_SIZE, TMPFS_INODES, 0755,
                MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
        if (root < 0)
                return root;
        /* Trees can be moved only onto an attached mount. */
        int r = mount_over_root(root, err);
        if (r >= 0)
                r = fill(root, state_path, network, err);
        return r < 0 ? r : pivot(root, err);
}

int root_open_state(const char *state_path, int *ret, struct error *err)
{
        *ret = -1;
        if (!state_path)
                return 0;
        int fd = open(ROOT_STATE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "open the state directory %s", state_path);
        *ret = fd;
        return 0;
}
