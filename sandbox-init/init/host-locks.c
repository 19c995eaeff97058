/* File locks that programs of the host meet. */
#include "sandbox-init/init/host-locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
        uint64_t mounts[INIT_MOUNTS]; /* 0: none */
        struct host_file {
                struct file_lock key; /* device, inode */
                int fd;
        } files[HOST_LOCKS_FILES_MAX];
        size_t n;
} host;

void host_locks_open(const struct init_hello *hello)
{
        memcpy(host.mounts, hello->mounts, sizeof(host.mounts));
}

bool host_locks_allow(int fd, const struct stat *st)
{
        struct statx of;

        if (host.mounts[0] == 0 || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
                return false;
        if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &of) < 0 ||
            !(of.stx_mask & STATX_MNT_ID))
                return false;
        for (size_t i = 0; i < INIT_MOUNTS; i++)
                if (host.mounts[i] != 0 && of.stx_mnt_id == host.mounts[i])
                        return true;
        return false;
}

static struct host_file *find(const struct file_lock *key)
{
        for (size_t i = 0; i < host.n; i++)
                if (lock_is_of(&host.files[i].key, key))
                        return &host.files[i];
        return NULL;
}

static struct flock range_of(int64_t start, int64_t end, int type)
{
        return (struct flock){.l_type = (short)type,
                              .l_whence = SEEK_SET,
                              .l_start = start,
                              .l_len = end == INT64_MAX ? 0 : end - start + 1};
}

/* A description of its own: the caller's would keep the caller's flock(), which ends when the last one closes it. With
 * O_NONBLOCK, a lease of another program is not waited for. */
static int open_again(int fd)
{
        char path[32];

        snprintf(path, sizeof(path), "self/fd/%d", fd);
        int own = openat(INIT_PROC_FD, path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        return own >= 0 ? own
                        : openat(INIT_PROC_FD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void host_locks_get(int fd, const struct file_lock *wanted, struct flock *ret)
{
        const struct host_file *f = find(wanted);

        *ret = range_of(wanted->start, wanted->end, wanted->type);
        if (fcntl(f ? f->fd : fd, F_OFD_GETLK, ret) < 0)
                ret->l_type = F_UNLCK;
}

bool host_locks_have_room(const struct file_lock *locks, size_t n)
{
        size_t held = 2;

        for (size_t i = 0; i < n; i++)
                held += locks[i].is_real != 0;
        return held <= HOST_LOCKS_MAX;
}

int host_locks_take(int fd, const struct file_lock *wanted, const struct file_lock *locks, size_t n)
{
        struct flock k = range_of(wanted->start, wanted->end, wanted->type), other;
        struct host_file *f = find(wanted);

        if (!host_locks_have_room(locks, n))
                return -ENOLCK;
        if (!f) {
                /* A call that waits is tried each few milliseconds: programs that watch the file must not see it opened each time. */
                host_locks_get(fd, wanted, &other);
                if (other.l_type != F_UNLCK)
                        return -EAGAIN;
                int own = host.n == HOST_LOCKS_FILES_MAX ? -1 : open_again(fd);
                if (own < 0)
                        return -ENOLCK;
                f = &host.files[host.n++];
                *f = (struct host_file){*wanted, own};
        }
        if (fcntl(f->fd, F_OFD_SETLK, &k) == 0)
                return 0;
        return errno == EAGAIN || errno == EACCES ? -EAGAIN : -ENOLCK;
}

/* The last byte from `from` on that has, or has not, a lock in the table: *is_held says which of both. */
static int64_t end_of_part(const struct file_lock *key, int64_t from, const struct file_lock *locks,
                           size_t n, bool *is_held)
{
        int64_t next = INT64_MAX;

        *is_held = false;
        for (size_t i = 0; i < n; i++) {
                if (!lock_is_of(&locks[i], key) || locks[i].end < from)
                        continue;
                if (locks[i].start <= from) {
                        *is_held = true;
                        return locks[i].end;
                }
                if (locks[i].start - 1 < next)
                        next = locks[i].start - 1;
        }
        return next;
}

void host_locks_release(const struct file_lock *range, const struct file_lock *locks, size_t n)
{
        const struct host_file *f = find(range);
        int64_t from = range->start;

        while (f && from <= range->end) {
                bool is_held;
                int64_t end = end_of_part(range, from, locks, n, &is_held);
                if (end > range->end)
                        end = range->end;
                struct flock k = range_of(from, end, F_UNLCK);
                if (!is_held)
                        fcntl(f->fd, F_OFD_SETLK, &k);
                if (end == INT64_MAX)
                        return;
                from = end + 1;
        }
}

bool host_locks_keep(const struct file_lock *locks, size_t n)
{
        for (size_t i = host.n; i-- > 0;) {
                bool is_used = false;
                for (size_t j = 0; j < n && !is_used; j++)
                        is_used = lock_is_of(&locks[j], &host.files[i].key);
                if (is_used)
                        continue;
                close(host.files[i].fd);
                host.files[i] = host.files[--host.n];
        }
        return host.n > 0;
}
