/* A log file with a bound. */
#include "base/log-file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { LOG_FD_FIRST = 1000 };

static struct {
        bool is_bounded;
        pid_t owner;         /* a child that inherited the log does not touch the file's name */
        int folder;          /* -1: the file is not renamed */
        char name[NAME_MAX]; /* in the folder */
        char old[NAME_MAX + 4];
} file = {.folder = -1};

static bool is_same(const struct stat *a, const struct stat *b)
{
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Another process with this log has renamed it, or its owner did. Returns whether there is a new one to
 * write to. */
static bool follow(const struct stat *ours)
{
        struct stat st;

        if (fstatat(file.folder, file.name, &st, AT_SYMLINK_NOFOLLOW) < 0 || is_same(&st, ours))
                return false;
        _cleanup_close_ int fd = openat(file.folder, file.name,
                                        O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == ours->st_uid &&
               st.st_size < LOG_FILE_MAX && dup3(fd, log_get_fd(), O_CLOEXEC) >= 0;
}

/* Renames the open log file to its old name and opens a new one. */
static bool replace(void)
{
        if (renameat(file.folder, file.name, file.folder, file.old) < 0 && errno != ENOENT)
                return false;
        _cleanup_close_ int fd = openat(file.folder, file.name,
                                        O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        return fd >= 0 && dup3(fd, log_get_fd(), O_CLOEXEC) >= 0;
}

static void keep_bound(void)
{
        struct stat st;

        if (fstat(log_get_fd(), &st) < 0 || st.st_size < LOG_FILE_MAX || getpid() != file.owner)
                return;
        if (file.folder < 0 || (!follow(&st) && !replace()))
                (void)!ftruncate(log_get_fd(), 0);
}

bool log_file_is_bounded(void)
{
        return file.is_bounded;
}

void log_file_append(const char *lines, size_t n)
{
        keep_bound();
        fd_write_all(log_get_fd(), lines, n);
}

/* So that it can be renamed whatever happens to the folders above it. */
static void open_folder(const char *path)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *folder = slash ? strndup(path, (size_t)(slash - path) + 1)
                                            : strdup(".");
        const char *name = slash ? slash + 1 : path;

        if (!folder || strlen(name) + 3 > NAME_MAX)
                return;
        _cleanup_close_ int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        file.folder = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOG_FD_FIRST);
        snprintf(file.name, sizeof(file.name), "%s", name);
        snprintf(file.old, sizeof(file.old), "%s.1", name);
}

static void remember(const char *path)
{
        struct stat named, opened;

        file.is_bounded = false;
        file.folder = -1;
        log_before_write(NULL);
        if (fstat(log_get_fd(), &opened) < 0 || !S_ISREG(opened.st_mode))
                return;
        file.is_bounded = true;
        file.owner = getpid();
        if (lstat(path, &named) == 0 && is_same(&named, &opened))
                open_folder(path);
        log_before_write(keep_bound);
}

int log_file_open(const char *path, enum log_format format, struct error *err)
{
        if (!path) {
                log_to(STDERR_FILENO, format);
                file.is_bounded = false;
                log_before_write(NULL);
                return 0;
        }
        _cleanup_close_ int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY,
                                      0600);
        int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOG_FD_FIRST);
        if (high < 0)
                return error_errno(err, errno, "--log-file %s", path);
        log_to(high, format);
        remember(path);
        return 0;
}
