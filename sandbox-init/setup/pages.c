/* The pages that a worker writes on its way to its first result. */
#include "sandbox-init/setup/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox-init/raw.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)
#endif

enum {
        RANGES_MOST = 1024,
        BYTES_MOST = 8 * 1024 * 1024, /* a session would pay for more in time and memory */
        LOOKED_MOST = 1 << 20,        /* pages; the kernel tells of each, mapped or not */
        PAGE_MOST = 64 * 1024,
        ENTRIES = 256, /* of a pagemap, read at once */
};

/* Documentation/admin-guide/mm/pagemap.rst of the kernel */
#define ENTRY_PRESENT   (UINT64_C(1) << 63)
#define ENTRY_FILE      (UINT64_C(1) << 61) /* or shared */
#define ENTRY_EXCLUSIVE (UINT64_C(1) << 56)

struct range {
        uintptr_t start, end;
};

static struct {
        struct iovec list[RANGES_MOST];
        size_t n, bytes;
} seen;

/* Where a page begins is where msync() takes an address. */
static size_t page_size(void)
{
        size_t size = 4096;

        while (size < PAGE_MOST && raw_call(SYS_msync, (long)size, 0, MS_ASYNC, 0, 0, 0) == -EINVAL)
                size *= 2;
        return size;
}

static void add(uintptr_t at, size_t size)
{
        struct iovec *last = seen.n > 0 ? &seen.list[seen.n - 1] : NULL;

        if (seen.bytes + size > BYTES_MOST)
                return;
        if (last && (uintptr_t)last->iov_base + last->iov_len == at)
                last->iov_len += size;
        else if (seen.n < RANGES_MOST)
                seen.list[seen.n++] = (struct iovec){(void *)at, size};
        else
                return;
        seen.bytes += size;
}

static void see_range(int pagemap, struct range range, size_t size)
{
        uint64_t entries[ENTRIES];
        const uint64_t wanted = ENTRY_PRESENT | ENTRY_EXCLUSIVE;

        while (range.start < range.end) {
                size_t left = (range.end - range.start) / size;
                if (left > ENTRIES)
                        left = ENTRIES;
                ssize_t n = pread(pagemap, entries, left * sizeof(*entries),
                                  (off_t)(range.start / size * sizeof(*entries)));
                if (n < (ssize_t)sizeof(*entries))
                        return;
                for (size_t i = 0; i < (size_t)n / sizeof(*entries); i++) {
                        if ((entries[i] & (wanted | ENTRY_FILE)) == wanted)
                                add(range.start, size);
                        range.start += size;
                }
        }
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "5581a000-5581c000 rw-p …": 1 with the addresses where it is private and writable. */
static bool parse(const char *line, struct range *ret)
{
        uintptr_t number[2] = {};

        for (size_t i = 0; i < 2; i++) {
                while (hex_digit(*line) >= 0)
                        number[i] = number[i] * 16 + (uintptr_t)hex_digit(*line++);
                if (*line++ != "- "[i])
                        return false;
        }
        *ret = (struct range){number[0], number[1]};
        return line[0] == 'r' && line[1] == 'w' && line[2] != '\0' && line[3] == 'p';
}

/* What we have mapped: a fork maps more, which the next one maps anew. What is too large to be
 * looked at is address space that somebody keeps in reserve. */
static void see_all(int maps, int pagemap, size_t size)
{
        char line[64], chunk[1024];
        struct range range;
        size_t length = 0, left = LOOKED_MOST;
        ssize_t n;

        while ((n = read(maps, chunk, sizeof(chunk))) > 0) {
                for (ssize_t i = 0; i < n; i++) {
                        if (chunk[i] != '\n') {
                                if (length < sizeof(line) - 1)
                                        line[length++] = chunk[i];
                                continue;
                        }
                        line[length] = '\0';
                        length = 0;
                        if (!parse(line, &range) || (range.end - range.start) / size > left)
                                continue;
                        left -= (range.end - range.start) / size;
                        see_range(pagemap, range, size);
                }
        }
}

void pages_see(pid_t fork)
{
        char path[32];

        snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)fork);
        _cleanup_close_ int pagemap = open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        if (pagemap < 0 || maps < 0)
                return;
        seen.n = seen.bytes = 0;
        see_all(maps, pagemap, page_size());
}

/* One by one, each whatever became of the others; a page that is there takes no time. */
static void fetch_each(const struct iovec *list, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (raw_call(SYS_madvise, raw_pointer(list[i].iov_base), (long)list[i].iov_len,
                             MADV_POPULATE_WRITE, 0, 0, 0) == -EINVAL)
                        return;
}

/* The kernel takes all of them in one call since 6.14, and stops at one that it can't. */
static void fetch(const struct iovec *list, size_t n)
{
        size_t bytes = 0;

        for (size_t i = 0; i < n; i++)
                bytes += list[i].iov_len;
        if (raw_call(SYS_process_madvise, PIDFD_SELF_THREAD, raw_pointer(list), (long)n,
                     MADV_POPULATE_WRITE, 0, 0) != (long)bytes)
                fetch_each(list, n);
}

void pages_fetch(void)
{
        fetch(seen.list, seen.n);
}
