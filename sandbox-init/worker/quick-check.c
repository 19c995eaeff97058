/* Quick checks after a cell. */
#include "sandbox-init/worker/quick-check.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <poll.h>
#include <sys/vfs.h>

#include "sandbox-init/raw.h"

bool quick_check_standard(void)
{
        struct pollfd p[] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
        struct {
                int64_t seconds, nanoseconds;
        } now = {0};

        if (raw_call(SYS_ppoll, raw_pointer(p), 3, raw_pointer(&now), 0, 0, 0) < 0)
                return false;
        return !((p[0].revents | p[1].revents | p[2].revents) & POLLNVAL);
}

int64_t quick_check_directory(const char *path)
{
        struct statx about;

        if (raw_call(SYS_statx, AT_FDCWD, raw_pointer(path), AT_SYMLINK_NOFOLLOW,
                     STATX_TYPE | STATX_SIZE, raw_pointer(&about), 0) < 0)
                return -1;
        return (about.stx_mode & 0170000) == 0040000 ? (int64_t)about.stx_size : -1;
}

bool quick_check_is_tmpfs(const char *path)
{
        struct statfs about;

        return raw_call(SYS_statfs, raw_pointer(path), raw_pointer(&about), 0, 0, 0, 0) == 0 &&
               about.f_type == TMPFS_MAGIC;
}
