/* Mounts by descriptor. */
#include "base/mount.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* One component of a path below a directory that only we change. It must not be a link, and of all
 * but the last, a directory. Returns the descriptor or negative errno. */
static int open_component(int dir, const char *name, bool last)
{
        char target[1];

        if (strcmp(name, "..") == 0)
                return -EXDEV;
        _cleanup_close_ int fd = openat(dir, name,
                                        O_PATH | O_CLOEXEC | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
        if (fd < 0)
                return -errno;
        /* Only of a link, readlinkat(2) returns a target. */
        return syscall(SYS_readlinkat, fd, "", target, sizeof(target)) >= 0 ? -ELOOP : take_fd(fd);
}

/* Does the work of openat2(2) where a filter refuses it: O_PATH, beneath root, no links. */
static int open_by_components(int root, const char *path)
{
        char name[256];
        int dir = fcntl(root, F_DUPFD_CLOEXEC, 0);

        if (*path == '/')
                path = "..";
        while (dir >= 0 && *path) {
                size_t n = strcspn(path, "/");
                int next = n < sizeof(name) ? 0 : -ENAMETOOLONG;
                snprintf(name, sizeof(name), "%.*s", (int)n, path);
                for (path += n; *path == '/';)
                        path++;
                if (next == 0)
                        next = open_component(dir, n ? name : ".", *path == '\0');
                close(dir);
                dir = next;
        }
        return dir;
}

int mount_point_open(int root, const char *path, struct error *err)
{
        struct open_how how = {
                .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
        if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL)) {
                fd = open_by_components(root, path);
                errno = fd < 0 ? -fd : 0;
        }
        if (fd < 0)
                return error_errno(err, errno, "open mount point /%s", path);
        return fd;
}

static int make_last(int root, const char *path, struct error *err)
{
        char parent[256];
        const char *slash = strrchr(path, '/');

        snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
                 slash ? path : ".");
        _cleanup_close_ int dir = mount_point_open(root, parent, err);
        if (dir < 0)
                return dir;
        if (mkdirat(dir, slash ? slash + 1 : path, 0755) < 0 && errno != EEXIST)
                return error_errno(err, errno, "make /%s", path);
        return 0;
}

int mount_point_make(int root, const char *path, struct error *err)
{
        char prefix[PATH_MAX];

        for (size_t n = 0; path[n] != '\0';) {
                struct error why = {};
                n += path[n] == '/';
                n += strcspn(path + n, "/");
                if (n >= sizeof(prefix))
                        return error_errno(err, ENAMETOOLONG, "make /%.60s", path);
                memcpy(prefix, path, n);
                prefix[n] = '\0';
                _cleanup_close_ int there = mount_point_open(root, prefix, &why);
                int r = there == -ENOENT ? make_last(root, prefix, err) : there;
                if (r < 0 && there != -ENOENT && err)
                        *err = why;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* propagation: of mount_setattr(2). */
static int clone_tree(int dir, const char *path, unsigned int recursive, uint64_t attributes,
                      uint64_t propagation, struct error *err)
{
        struct mount_attr attr = {.attr_set = attributes, .propagation = propagation};

        _cleanup_close_ int fd = open_tree(
                dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | recursive);
        if (fd < 0)
                return error_errno(err, errno, "open_tree %s", *path ? path : "(directory)");
        if (attributes != 0 &&
            mount_setattr(fd, "", AT_EMPTY_PATH | recursive, &attr, sizeof(attr)) < 0)
                return error_errno(err, errno, "mount_setattr");
        return take_fd(fd);
}

int mount_clone(int dir, const char *path, uint64_t attributes, struct error *err)
{
        return clone_tree(dir, path, 0, attributes, 0, err);
}

int mount_clone_tree(int dir, const char *path, uint64_t attributes, struct error *err)
{
        return clone_tree(dir, path, AT_RECURSIVE, attributes, MS_PRIVATE, err);
}

static int set_number(int context, const char *key, uint64_t value, struct error *err)
{
        char text[32];

        snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
        if (fsconfig(context, FSCONFIG_SET_STRING, key, text, 0) < 0)
                return error_errno(err, errno, "fsconfig %s=%s", key, text);
        return 0;
}

static int create(int context, struct error *err)
{
        if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return error_errno(err, errno, "create the file system");
        return 0;
}

static int mount_context(int context, uint64_t attributes, struct error *err)
{
        int fd = fsmount(context, FSMOUNT_CLOEXEC, (unsigned int)attributes);
        if (fd < 0)
                return error_errno(err, errno, "fsmount");
        return fd;
}

int mount_tmpfs_new(uint64_t size, uint32_t inodes, uint32_t mode, uint64_t attributes,
                    struct error *err)
{
        char octal[16];

        _cleanup_close_ int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
        if (context < 0)
                return error_errno(err, errno, "fsopen tmpfs");
        snprintf(octal, sizeof(octal), "%o", mode);
        int r = set_number(context, "size", size, err);
        if (r >= 0)
                r = set_number(context, "nr_inodes", inodes, err);
        if (r >= 0 && fsconfig(context, FSCONFIG_SET_STRING, "mode", octal, 0) < 0)
                r = error_errno(err, errno, "fsconfig mode=%s", octal);
        if (r >= 0)
                r = create(context, err);
        return r < 0 ? r : mount_context(context, attributes, err);
}

int mount_check_proc(struct error *err)
{
        char number[16], target[16];

        snprintf(number, sizeof(number), "%d", (int)syscall(SYS_getpid));
        long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", target, sizeof(target));
        if (n == (long)strlen(number) && memcmp(target, number, (size_t)n) == 0)
                return 0;
        return error_set(err, ESRCH,
                         "/proc is not that of this pid namespace: mount its own, as "
                         "'unshare --mount-proc' and 'bwrap --proc /proc' do");
}

/* Returns the length of a word that ends with a space, and what follows the space. */
static size_t take_word(const char **text)
{
        size_t n = strcspn(*text, " \n");

        *text += n + ((*text)[n] == ' ');
        return n;
}

static bool is_path(const char *text, size_t n, const char *path)
{
        return n == strlen(path) && memcmp(text, path, n) == 0;
}

void mount_note_proc(struct mount_proc_covers *covers, const char *line)
{
        /* proc_create_mount_point() and register_sysctl_mount_point() in the kernel */
        static const char *const empty[] = {"/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd",
                                            "/proc/openprom"};

        for (int i = 0; i < 4; i++) /* its id, that of its parent, device and root */
                take_word(&line);
        const char *point = line;
        size_t n = take_word(&line);
        if (is_path(point, n, "/proc"))
                covers->is_read_only = strncmp(line, "ro,", 3) == 0 || strncmp(line, "ro ", 3) == 0;
        if (n <= strlen("/proc/") || memcmp(point, "/proc/", strlen("/proc/")) != 0)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(empty); i++)
                if (is_path(point, n, empty[i]))
                        return;
        if (covers->n++ == 0)
                snprintf(covers->first, sizeof(covers->first), "%.*s", (int)n, point);
}

/* In blocks. Of a line that is longer than one, the begin is enough. */
static void read_proc_covers(struct mount_proc_covers *ret)
{
        enum { BLOCK = 4096 };
        char block[BLOCK + 1];
        bool begins = true;
        ssize_t more = 1;
        size_t n = 0;

        *ret = (struct mount_proc_covers){};
        _cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && (more > 0 || n > 0)) {
                more = read(fd, block + n, BLOCK - n);
                n += more > 0 ? (size_t)more : 0;
                block[n] = '\0';
                size_t line = strcspn(block, "\n");
                if (line == n && n < BLOCK && more > 0)
                        continue;
                if (begins)
                        mount_note_proc(ret, block);
                begins = line < n;
                size_t done = begins ? line + 1 : n;
                n -= done;
                memmove(block, block + done, n);
        }
}

/* The kernel gives a user namespace no new proc if mounts cover a part of each one that it can see (mount_too_revealing()). */
static int explain_refusal(struct error *err)
{
        struct mount_proc_covers covers;
        char others[32] = "";

        read_proc_covers(&covers);
        if (covers.n == 0)
                return error_errno(err, EPERM, "fsmount");
        if (covers.n > 1)
                snprintf(others, sizeof(others), " and %u other path%s in it", covers.n - 1,
                         covers.n > 2 ? "s" : "");
        return error_set(err, EPERM,
                         "the kernel refuses a new /proc (EPERM), because mounts cover %s%s: "
                         "'cloister doctor' prints the setting that uncovers the present one",
                         covers.first, others);
}

int mount_proc_new(enum mount_proc kind, struct error *err)
{
        _cleanup_close_ int context = fsopen("proc", FSOPEN_CLOEXEC);
        if (context < 0)
                return error_errno(err, errno, "fsopen proc");
        const char *hidepid = kind == MOUNT_PROC_OWN ? "ptraceable" : "off";
        if (kind != MOUNT_PROC_WHOLE &&
            (fsconfig(context, FSCONFIG_SET_STRING, "subset", "pid", 0) < 0 ||
             fsconfig(context, FSCONFIG_SET_STRING, "hidepid", hidepid, 0) < 0))
                return error_errno(err, errno, "proc with subset=pid,hidepid=%s", hidepid);
        int r = create(context, err);
        if (r < 0)
                return r;
        r = mount_context(context, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
        return r == -EPERM ? explain_refusal(err) : r;
}

/* Describes what is wrong with a place for a directory: openat2(2) returns a link itself, if it is the last
 * component. */
static const char *fault_of(int mount, int target)
{
        char byte[1];

        if (syscall(SYS_readlinkat, target, "", byte, sizeof(byte)) >= 0)
                return "is a symbolic link";
        _cleanup_close_ int from = openat(mount, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int to = openat(target, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return from >= 0 && to < 0 && errno == ENOTDIR ? "is no directory" : NULL;
}

int mount_attach(int mount, int root, const char *path, struct error *err)
{
        _cleanup_close_ int target = mount_point_open(root, path, err);
        if (target < 0) {
                if (target == -ENOENT && err)
                        err->code = MOUNT_CODE_TREE;
                return target;
        }
        if (move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
            0) {
                int code = errno;
                const char *fault = fault_of(mount, target);
                return fault ? error_set(err, MOUNT_CODE_TREE, "mount point /%s %s", path, fault)
                             : error_errno(err, code, "mount on /%s", path);
        }
        return 0;
}

int mount_over_root(int mount, struct error *err)
{
        if (move_mount(mount, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
                return error_errno(err, errno, "mount over /");
        return 0;
}

int mount_become_root(int mount, struct error *err)
{
        /* pivot_root(2), "pivot_root(".", ".")": the old root is stacked on the new one and then
         * taken off. */
        if (fchdir(mount) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
                return error_errno(err, errno, "pivot_root");
        if (umount2(".", MNT_DETACH) < 0)
                return error_errno(err, errno, "detach the old root");
        if (chdir("/") < 0)
                return error_errno(err, errno, "enter the new root");
        return 0;
}

int mount_tmpfs_at(int root, const char *path, uint64_t size, uint32_t inodes, uint32_t mode,
                   struct error *err)
{
        _cleanup_close_ int mount = mount_tmpfs_new(size, inodes, mode,
                                                    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
        int r = mount < 0 ? mount : mount_attach(mount, root, path, err);
        return r < 0 ? error_context(err, "tmpfs /%s", path) : 0;
}

static bool is_escape(const char *text)
{
        return text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
               text[2] <= '7' && text[3] >= '0' && text[3] <= '7';
}

void mount_unescape(char *path)
{
        char *to = path;

        for (const char *from = path; *from; to++) {
                if (is_escape(from)) {
                        *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
                        from += 4;
                } else {
                        *to = *from++;
                }
        }
        *to = '\0';
}

int mount_empty_root(struct error *err)
{
        enum { EMPTY_BYTES = 4096, EMPTY_FILES = 2 };
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_errno(err, errno, "make the mounts private");
        _cleanup_close_ int root = mount_tmpfs_new(
                EMPTY_BYTES, EMPTY_FILES, 0555,
                MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
        if (root < 0)
                return root;
        int r = mount_over_root(root, err);
        if (r >= 0)
                r = mount_become_root(root, err);
        if (r >= 0 && mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
                r = error_errno(err, errno, "make the root read-only");
        return r;
}
