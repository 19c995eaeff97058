/* The one function that creates files on the host. */
#include "base/host-file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define HOST_FILE(name, flags, mode) {flags, mode},
static const struct {
        int flags;
        mode_t mode;
} rows[] = {
#include "base/host-files.def"
};
#undef HOST_FILE

static int failed(int code, struct error *err)
{
        return error_set(err, code, "%s", strerrordesc_np(code));
}

int host_file_check(enum host_file file, int fd, uid_t user, struct stat *ret, struct error *err)
{
        bool is_lock = !(rows[file].flags & (O_APPEND | O_EXCL | O_TRUNC));

        if (fstat(fd, ret) < 0)
                return failed(errno, err);
        if (!S_ISREG(ret->st_mode))
                return error_set(err, EINVAL, "it is not a regular file");
        if (ret->st_uid != user)
                return is_lock ? 0 : error_set(err, EPERM, "it belongs to another user");
        if (ret->st_nlink != 1 && !is_lock)
                return error_set(err, EPERM, "the file has other names (hard links)");
        mode_t mode = ret->st_mode & 07777;
        if ((mode & ~rows[file].mode) && fchmod(fd, mode & rows[file].mode) < 0)
                return error_set(err, EPERM, "its mode cannot be set to %04o",
                                 mode & rows[file].mode);
        return 0;
}

int host_file_open(enum host_file file, int directory, const char *path, struct error *err)
{
        int flags = rows[file].flags;
        struct stat st;

        _cleanup_close_ int fd = openat(directory, path,
                                        (flags & ~O_TRUNC) | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                                                O_NONBLOCK | O_NOCTTY,
                                        rows[file].mode);
        if (fd < 0 && errno == ENXIO)
                return error_set(err, EINVAL,
                                 "it is not a regular file"); /* a FIFO without a reader */
        if (fd < 0)
                return failed(errno, err);
        int r = flags & O_EXCL ? 0 : host_file_check(file, fd, geteuid(), &st, err);
        if (r >= 0 && (flags & O_TRUNC) && ftruncate(fd, 0) < 0)
                r = failed(errno, err);
        return r < 0 ? r : take_fd(fd);
}
