/* Host directories of profiles. */
#include "supervisor/monitor/template/mount-source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mount.h"
#include "base/path.h"

enum { MOUNTINFO_MAX = 16 * 1024 * 1024 };

/* Found by statfs(2). devtmpfs has the number of tmpfs and is found by its path. */
static const struct {
        unsigned long magic;
        const char *name;
} kernel_file_systems[] = {
        {0x9fa0, "proc"},
        {0x62656572, "sysfs"},
        {0x27e0eb, "cgroup"},
        {0x63677270, "cgroup2"},
        {0x1cd1, "devpts"},
        {0x64626720, "debugfs"},
        {0x74726163, "tracefs"},
        {0x73636673, "securityfs"},
        {0xcafe4a11, "bpf"},
        {0x62656570, "configfs"},
        {0xde5e81e4, "efivarfs"},
        {0x6165676c, "pstore"},
        {0x42494e4d, "binfmt_misc"},
        {0x19800202, "mqueue"},
        {0x6e736673, "nsfs"},
        {0xf97cff8c, "selinuxfs"},
        {0x65735543, "fusectl"},
};

/* By the name in mountinfo, of file systems that are mounted below. */
static bool is_kernel_name(const char *name, size_t n)
{
        static const char *const others[] = {"devtmpfs", "hugetlbfs", "rpc_pipefs", "autofs"};

        for (size_t i = 0; i < ARRAY_SIZE(kernel_file_systems); i++) {
                if (strlen(kernel_file_systems[i].name) == n &&
                    memcmp(kernel_file_systems[i].name, name, n) == 0)
                        return true;
        }
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                if (strlen(others[i]) == n && memcmp(others[i], name, n) == 0)
                        return true;
        }
        return false;
}

int mount_guards_add(struct mount_guards *guards, const char *path, const char *what,
                     enum mount_guard_kind kind, struct error *err)
{
        char real[PATH_MAX];
        struct mount_guard *guard = &guards->items[guards->n];

        if (guards->n == MOUNT_GUARDS_MAX)
                return error_set(err, E2BIG, "more than %d guarded paths", MOUNT_GUARDS_MAX);
        /* A path that does not exist may be created later, under this name. */
        if (!realpath(path, real))
                snprintf(real, sizeof(real), "%s", path);
        if ((size_t)snprintf(guard->path, sizeof(guard->path), "%s", real) >= sizeof(guard->path))
                return error_errno(err, ENAMETOOLONG, "%.100s…", real);
        guard->what = what;
        guard->kind = kind;
        guards->n++;
        return 0;
}

static bool is_within(const char *path, const char *other)
{
        size_t n = strlen(other);

        return strncmp(path, other, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Whether path is `other` or lies below it: by device and inode of each directory on the path, so
 * that links and bind mounts make no difference. */
static bool lies_in(const char *path, const struct stat *other)
{
        char prefix[PATH_MAX];
        struct stat st;

        if ((size_t)snprintf(prefix, sizeof(prefix), "%s", path) >= sizeof(prefix))
                return true;
        for (;;) {
                if (stat(prefix, &st) == 0 && st.st_dev == other->st_dev &&
                    st.st_ino == other->st_ino)
                        return true;
                char *slash = strrchr(prefix, '/');
                if (!slash || prefix[1] == '\0')
                        return false;
                slash[slash == prefix] = '\0';
        }
}

static int expand(const char *source, char *ret, size_t size, struct error *err)
{
        const char *home = path_home();

        if (source[0] == '~' && !home)
                return error_set(err, ENOENT, "HOME is not set");
        if ((size_t)snprintf(ret, size, "%s%s", source[0] == '~' ? home : "",
                             source + (source[0] == '~')) >= size)
                return error_errno(err, ENAMETOOLONG, "the path");
        return 0;
}

static int open_directory(const char *path, struct error *err)
{
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_NO_MAGICLINKS};

        int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
        return fd < 0 ? error_errno(err, errno, "open it") : fd;
}

/* The path of an open directory, without links. */
static int real_path(int fd, char *ret, size_t size, struct error *err)
{
        char link[64];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, ret, size - 1);
        if (n < 0)
                return error_errno(err, errno, "read its path");
        ret[n] = '\0';
        return 0;
}

static int check_kind(int fd, const char *path, struct error *err)
{
        static const char *const places[] = {"/proc", "/sys", "/dev"};
        struct statfs fs;

        if (strcmp(path, "/") == 0)
                return error_set(err, EPERM, "the root directory cannot be mounted");
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                if (is_within(path, places[i]))
                        return error_set(err, EPERM, "nothing below %s can be mounted", places[i]);
        }
        if (fstatfs(fd, &fs) < 0)
                return error_errno(err, errno, "statfs");
        for (size_t i = 0; i < ARRAY_SIZE(kernel_file_systems); i++) {
                if ((unsigned long)fs.f_type == kernel_file_systems[i].magic)
                        return error_set(err, EPERM, "it is a kernel file system (%s)",
                                         kernel_file_systems[i].name);
        }
        return 0;
}

static int check_ours(int fd, const char *path, bool writable, const struct mount_guards *guards,
                      struct error *err)
{
        struct stat source, st;

        if (fstat(fd, &source) < 0)
                return error_errno(err, errno, "stat");
        for (size_t i = 0; i < guards->n; i++) {
                const struct mount_guard *guard = &guards->items[i];
                if (guard->kind != MOUNT_GUARD_FILE && stat(guard->path, &st) == 0 &&
                    lies_in(path, &st))
                        return error_set(err, EPERM,
                                         "it is in %s (%s), which no sandbox may access",
                                         guard->path, guard->what);
                if (!lies_in(guard->path, &source))
                        continue;
                if (guard->kind == MOUNT_GUARD_PRIVATE)
                        return error_set(
                                err, EPERM,
                                "%s (%s) is below it, which no sandbox may access (mount another directory)",
                                guard->path, guard->what);
                if (writable)
                        return error_set(
                                err, EPERM,
                                "%s (%s) is below it and must not be writable in a sandbox (mount another directory, or use \"ro\")",
                                guard->path, guard->what);
        }
        return 0;
}

/* One line of mountinfo (proc_pid_mountinfo(5)): the fifth field is the mount point, the field after
 * " - " the file system. */
static int check_mount_line(char *line, const char *path, struct error *err)
{
        const char *kind = strstr(line, " - ");
        char *where = line;

        for (int i = 0; i < 4 && where; i++) {
                where = strchr(where, ' ');
                where += where != NULL;
        }
        if (!kind || !where || !strchr(where, ' '))
                return 0;
        kind += 3;
        if (!is_kernel_name(kind, strcspn(kind, " ")))
                return 0;
        *strchr(where, ' ') = '\0';
        mount_unescape(where);
        if (!is_within(where, path))
                return 0;
        return error_set(err, EPERM, "%.*s is mounted below it, on %s", (int)strcspn(kind, " "),
                         kind, where);
}

/* A directory is mounted with all mounts below it. */
static int check_below(const char *path, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        char *rest = NULL;
        size_t n = 0;

        _cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "open mountinfo");
        int r = fd_read_whole(fd, MOUNTINFO_MAX, &text, &n, err);
        if (r < 0)
                return error_context(err, "mountinfo");
        for (char *line = strtok_r(text, "\n", &rest); line && r >= 0;
             line = strtok_r(NULL, "\n", &rest))
                r = check_mount_line(line, path, err);
        return r;
}

/* Files that code writes there belong to the host id of its sandbox. */
static int check_writable(int fd, const struct ids *ids, struct error *err)
{
        if (ids->mode != SANDBOX_ROOTLESS || ids->count != 1)
                return error_set(
                        err, EPERM,
                        "mode \"rw\" needs sandboxes with the id of the directory's owner, and here each sandbox has its own id: start Cloister as the ordinary user that the directory belongs to, or use \"ro\"");
        if (faccessat(fd, "", W_OK | X_OK, AT_EMPTY_PATH | AT_EACCESS) < 0)
                return error_errno(err, errno, "write to it (mode \"rw\")");
        return 0;
}

static int open_checked(const struct config_mount *mount, const struct ids *ids,
                        const struct mount_guards *guards, struct error *err)
{
        char path[PATH_MAX], real[PATH_MAX];

        int r = expand(mount->source, path, sizeof(path), err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open_directory(path, err);
        r = fd < 0 ? fd : real_path(fd, real, sizeof(real), err);
        if (r >= 0)
                r = check_kind(fd, real, err);
        if (r >= 0)
                r = check_ours(fd, real, mount->writable, guards, err);
        if (r >= 0)
                r = check_below(real, err);
        if (r >= 0 && mount->writable)
                r = check_writable(fd, ids, err);
        return r < 0 ? r : take_fd(fd);
}

int mount_source_open(const struct config_mount *mount, const struct ids *ids,
                      const struct mount_guards *guards, struct error *err)
{
        int r = open_checked(mount, ids, guards, err);

        return r < 0 ? error_context(err, "mount %s", mount->source) : r;
}
