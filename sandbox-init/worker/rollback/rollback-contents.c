/* Contents, modes and times are what they were. Runs after names have their places. */
#include "sandbox-init/worker/rollback/rollback-contents.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, OWNER_WRITES = 0600 };

static bool is_file(const struct snapshot_inode *inode)
{
        return S_ISREG(inode->mode) && (inode->place != SNAPSHOT_NONE || inode->fd >= 0);
}

/* Of a file whose mode forbids it too: rollback_attributes() sets it. */
static int open_file(struct rollback *r, const struct snapshot_inode *inode, int flags)
{
        char path[32];
        int directory = AT_FDCWD;
        const char *text = path;

        flags |= O_CLOEXEC | O_NONBLOCK;
        if (inode->place == SNAPSHOT_NONE) {
                snapshot_fd_path(inode->fd, path);
        } else {
                const struct snapshot_name *name = snapshot_name(r->s, inode->place);
                directory = rollback_directory(r, name->directory);
                text = snapshot_text(r->s, name->text);
                flags |= O_NOFOLLOW;
        }
        if (directory < 0 && directory != AT_FDCWD)
                return directory;
        long fd = raw_call(SYS_openat, directory, raw_pointer(text), flags, 0, 0, 0);
        if (fd == -EACCES) {
                raw_call(SYS_fchmodat, directory, raw_pointer(text), OWNER_WRITES, 0, 0, 0);
                fd = raw_call(SYS_openat, directory, raw_pointer(text), flags, 0, 0, 0);
        }
        return (int)fd;
}

/* ---- whether it has changed ---- */

static const struct snapshot_extent *extent_at(const struct rollback *r, size_t at)
{
        return (const void *)(r->s->contents.base + at);
}

static size_t next_extent(const struct snapshot_extent *extent, size_t at)
{
        return (at + sizeof(*extent) + extent->length + 7) & ~(size_t)7;
}

static bool is_extent(int fd, const struct snapshot_extent *extent)
{
        static char piece[PIECE];
        const char *wanted = (const char *)(extent + 1);
        uint64_t n = 0;

        while (n < extent->length) {
                uint64_t most = extent->length - n < PIECE ? extent->length - n : PIECE;
                long got = raw_call(SYS_pread64, fd, raw_pointer(piece), (long)most,
                                    (long)(extent->offset + n), 0, 0);
                if (got <= 0 || memcmp(piece, wanted + n, (size_t)got) != 0)
                        return false;
                n += (uint64_t)got;
        }
        return true;
}

/* Whether the file has no data between these offsets. */
static bool is_hole(int fd, uint64_t from, uint64_t to)
{
        if (from >= to)
                return true;
        long data = raw_call(SYS_lseek, fd, (long)from, SEEK_DATA, 0, 0, 0);
        return data == -ENXIO || (data >= 0 && (uint64_t)data >= to);
}

static bool has_content(const struct rollback *r, const struct snapshot_inode *inode, int fd)
{
        struct stat about = {0};
        uint64_t end = 0;
        size_t at = inode->content;

        if (raw_call(SYS_fstat, fd, raw_pointer(&about), 0, 0, 0, 0) < 0 ||
            (uint64_t)about.st_size != inode->size)
                return false;
        for (uint32_t i = 0; i < inode->n_extents; i++) {
                const struct snapshot_extent *extent = extent_at(r, at);
                if (!is_hole(fd, end, extent->offset) || !is_extent(fd, extent))
                        return false;
                end = extent->offset + extent->length;
                at = next_extent(extent, at);
        }
        return is_hole(fd, end, inode->size);
}

/* A changed file has no pages until it is written. */
static void compare(struct rollback *r, uint32_t i)
{
        struct snapshot_inode *inode = snapshot_inode(r->s, i);
        int fd = open_file(r, inode, O_RDONLY | O_NOATIME);

        inode->is_changed = fd < 0 || !has_content(r, inode, fd);
        if (fd >= 0)
                snapshot_close(fd);
        if (!inode->is_changed)
                return;
        fd = open_file(r, inode, O_WRONLY | O_TRUNC);
        if (fd >= 0)
                snapshot_close(fd);
        if (inode->is_new)
                return; /* was counted by its name */
        r->report->changed++;
        rollback_note_inode(r, &r->report->named, i);
}

/* ---- writing ---- */

static int write_extent(int fd, const struct snapshot_extent *extent)
{
        const char *bytes = (const char *)(extent + 1);
        uint64_t n = 0;

        while (n < extent->length) {
                long r = raw_call(SYS_pwrite64, fd, raw_pointer(bytes + n),
                                  (long)(extent->length - n), (long)(extent->offset + n), 0, 0);
                if (r <= 0)
                        return r < 0 ? (int)r : -EIO;
                n += (uint64_t)r;
        }
        return 0;
}

static int write_content(struct rollback *r, const struct snapshot_inode *inode)
{
        size_t at = inode->content;
        int fd = open_file(r, inode, O_WRONLY);

        if (fd < 0)
                return fd;
        int n = (int)raw_call(SYS_ftruncate, fd, (long)inode->size, 0, 0, 0, 0);
        for (uint32_t i = 0; i < inode->n_extents && n >= 0; i++) {
                const struct snapshot_extent *extent = extent_at(r, at);
                n = write_extent(fd, extent);
                at = next_extent(extent, at);
        }
        snapshot_close(fd);
        return n;
}

/* ---- descriptors ---- */

/* A descriptor of a file that was deleted gets the file that took its place. */
static void reopen(struct rollback *r, const struct snapshot_open *open)
{
        struct snapshot_inode *inode = snapshot_inode(r->s, open->inode);

        if (!inode->is_new || inode->place == SNAPSHOT_NONE)
                return;
        long flags = raw_call(SYS_fcntl, open->fd, F_GETFL, 0, 0, 0, 0);
        long offset = raw_call(SYS_lseek, open->fd, 0, SEEK_CUR, 0, 0, 0);
        long of_fd = raw_call(SYS_fcntl, open->fd, F_GETFD, 0, 0, 0, 0);
        if (flags < 0 || of_fd < 0)
                return;
        int fd = open_file(r, inode, (int)(flags & (O_ACCMODE | O_APPEND | O_SYNC)));
        if (fd < 0)
                return;
        raw_call(SYS_lseek, fd, offset, SEEK_SET, 0, 0, 0);
        raw_call(SYS_fcntl, fd, F_SETFL, flags, 0, 0, 0);
        raw_call(SYS_dup3, fd, open->fd, of_fd & FD_CLOEXEC ? O_CLOEXEC : 0, 0, 0, 0);
        snapshot_close(fd);
}

void rollback_contents(struct rollback *r)
{
        for (uint32_t i = 0; i < r->s->n_opens; i++)
                reopen(r, snapshot_open_file(r->s, i));
        for (uint32_t i = 0; i < r->s->n_inodes; i++) {
                if (is_file(snapshot_inode(r->s, i)))
                        compare(r, i);
        }
        for (uint32_t i = 0; i < r->s->n_inodes; i++) {
                const struct snapshot_inode *inode = snapshot_inode(r->s, i);
                if (inode->is_changed && write_content(r, inode) < 0)
                        rollback_note_inode(r, &r->report->failed, i);
        }
}

/* ---- modes and times ---- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static long set_attributes(int directory, const char *text, const struct snapshot_inode *inode)
{
        struct stat about;
        long r = snapshot_stat(directory, text, &about);

        if (r >= 0 && about.st_mode != inode->mode && !S_ISLNK(inode->mode))
                r = raw_call(SYS_fchmodat, directory, raw_pointer(text), inode->mode & 07777, 0, 0,
                             0);
        if (r >= 0 && (!same_time(&about.st_mtim, &inode->times[1]) ||
                       !same_time(&about.st_atim, &inode->times[0])))
                r = raw_call(SYS_utimensat, directory, raw_pointer(text), raw_pointer(inode->times),
                             AT_SYMLINK_NOFOLLOW, 0, 0);
        return r;
}

/* The entries of a directory come after it, and are restored first: its mode may forbid to enter it. */
void rollback_attributes(struct rollback *r)
{
        for (uint32_t i = r->s->n_inodes; i-- > 1;) {
                const struct snapshot_inode *inode = snapshot_inode(r->s, i);
                if (inode->place == SNAPSHOT_NONE)
                        continue;
                const struct snapshot_name *name = snapshot_name(r->s, inode->place);
                int directory = rollback_directory(r, name->directory);
                if (directory < 0 ||
                    set_attributes(directory, snapshot_text(r->s, name->text), inode) < 0)
                        rollback_note_inode(r, &r->report->failed, i);
        }
        set_attributes(AT_FDCWD, r->s->root, snapshot_inode(r->s, 0));
}
