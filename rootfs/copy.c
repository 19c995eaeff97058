/* Copies what a plan lists. */
#include "rootfs/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum { CHUNK = 128 * 1024 };

/* Copies in the kernel (copy_file_range) if both file systems support it. Blocks may be shared,
 * inodes and pages are not. Returns 1 when done, 0 when the caller has to read and write, or
 * negative errno. */
static int copy_in_kernel(int from, int to)
{
        bool begun = false;

        for (;;) {
                ssize_t n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0);
                if (n == 0)
                        return begun; /* no byte was copied: not supported on some file systems */
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO || begun))
                        return -errno;
                if (n < 0)
                        return 0;
                begun = true;
        }
}

static int copy_bytes(int from, int to, uint64_t size, char *chunk)
{
        if (size > CHUNK) {
                int r = copy_in_kernel(from, to);
                if (r != 0)
                        return r < 0 ? r : 0;
        }
        for (;;) {
                ssize_t n = fd_read_full(from, chunk, CHUNK);
                if (n < 0)
                        return (int)n;
                int r = fd_write_all(to, chunk, (size_t)n);
                if (r < 0)
                        return r;
                if (n < CHUNK)
                        return 0;
        }
}

static int create(int root, const struct plan_entry *entry)
{
        int fd = openat(root, entry->path + 1, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        entry->executable ? 0755 : 0644);
        return fd < 0 ? -errno : fd;
}

static int copy_file(int root, const struct plan_entry *entry, char *chunk)
{
        struct stat st;
        _cleanup_close_ int from = open(entry->path,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (from < 0 || fstat(from, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        _cleanup_close_ int to = create(root, entry);
        if (to < 0)
                return to;
        int r = copy_bytes(from, to, (uint64_t)st.st_size, chunk);
        if (r < 0)
                return r;
        struct timespec times[2] = {st.st_mtim, st.st_mtim};
        return futimens(to, times) < 0 ? -errno : 0;
}

static int write_text(int root, const struct plan_entry *entry)
{
        _cleanup_close_ int fd = create(root, entry);

        return fd < 0 ? fd : fd_write_all(fd, entry->text, strlen(entry->text));
}

static int copy_entry(int root, const struct plan_entry *entry, char *chunk)
{
        switch (entry->kind) {
        case PLAN_DIRECTORY:
                /* /lib of a host without merged /usr becomes a link to usr/lib in the image. */
                return mkdirat(root, entry->path + 1, 0755) < 0 && errno != EEXIST ? -errno : 0;
        case PLAN_LINK:
                return symlinkat(entry->text, root, entry->path + 1) < 0 ? -errno : 0;
        case PLAN_TEXT:
                return write_text(root, entry);
        case PLAN_FILE:
                return copy_file(root, entry, chunk);
        }
        return -EINVAL;
}

/* A file of the host that was removed or became unreadable meanwhile. */
static bool may_be_left_out(const struct plan_entry *entry, int r)
{
        return entry->kind == PLAN_FILE && !entry->required &&
               (r == -EACCES || r == -ENOENT || r == -EPERM || r == -ELOOP || r == -EINVAL);
}

int copy_plan(int root, const struct plan *plan, struct progress *progress, struct error *err)
{
        _cleanup_free_ char *chunk = malloc(CHUNK);

        if (!chunk)
                return error_errno(err, ENOMEM, "copy");
        for (size_t i = 0; i < plan->n; i++) {
                const struct plan_entry *entry = &plan->entries[i];
                int r = copy_entry(root, entry, chunk);
                if (r == -ENOSPC || r == -EDQUOT)
                        return r;
                if (r < 0 && !may_be_left_out(entry, r))
                        return error_errno(err, -r, "copy %s", entry->path);
                progress_count(progress, "copying file", i + 1, plan->n);
        }
        return 0;
}

int copy_content(int from, int to, uint64_t size)
{
        _cleanup_free_ char *chunk = malloc(CHUNK);

        return chunk ? copy_bytes(from, to, size, chunk) : -ENOMEM;
}
