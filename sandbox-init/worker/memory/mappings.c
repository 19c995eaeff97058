/* /proc/self/maps, without libc. */
#include "sandbox-init/worker/memory/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "sandbox-init/raw.h"

enum { CHUNK = 4096, PAGE_MAX = 65536 };

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* msync() of no bytes checks only that the address is a page's. */
uint64_t mapping_page_size(void)
{
        uint64_t size = MAPPING_PAGE;

#if defined(__aarch64__)
        while (size < PAGE_MAX &&
               raw_call(SYS_msync, (long)(SCRATCH_START + size), 0, MS_ASYNC, 0, 0, 0) == -EINVAL)
                size *= 2;
#endif
        return size;
}

long scratch_map(uint64_t size)
{
        long r = raw_call(SYS_mmap, (long)SCRATCH_START, (long)size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);

        if (r == (long)SCRATCH_START)
                return 0;
        if (r < 0 && r >= -4095)
                return r;
        raw_call(SYS_munmap, r, (long)size, 0, 0, 0, 0);
        return -EEXIST;
}

void scratch_unmap(uint64_t size)
{
        raw_call(SYS_munmap, (long)SCRATCH_START, (long)size, 0, 0, 0, 0);
}

/* ---- pages ---- */

long pagemap_open(void)
{
        return raw_call(SYS_openat, AT_FDCWD, raw_pointer("/proc/self/pagemap"),
                        O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

long pagemap_read(long pagemap, uint64_t page, uint64_t at, uint64_t n, uint64_t *entries)
{
        const long size = (long)(n * sizeof(entries[0]));
        const long got = raw_call(SYS_pread64, pagemap, raw_pointer(entries), size,
                                  (long)(at / page * sizeof(entries[0])), 0, 0);

        if (got < 0)
                return got;
        return got == size ? 0 : -EIO;
}

/* The bytes are taken for signals to block: all are blocked. */
bool page_is_readable(uint64_t at)
{
        return raw_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)at, 0, sizeof(uint64_t), 0, 0) !=
               -EFAULT;
}

/* ---- numbers ---- */

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *take_hex(const char *c, uint64_t *ret)
{
        *ret = 0;
        for (; hex_digit(*c) >= 0; c++)
                *ret = *ret * 16 + (uint64_t)hex_digit(*c);
        return c;
}

const char *take_decimal(const char *c, uint64_t *ret)
{
        *ret = 0;
        for (; *c >= '0' && *c <= '9'; c++)
                *ret = *ret * 10 + (uint64_t)(*c - '0');
        return c;
}

/* ---- one line: "start-end perms offset major:minor inode   path" ---- */

/* No call of memset(). */
static void clear(struct mapping *m)
{
        for (size_t i = 0; i < sizeof(*m) / sizeof(uint64_t); i++)
                ((volatile uint64_t *)m)[i] = 0;
}
_Static_assert(sizeof(struct mapping) % sizeof(uint64_t) == 0, "clear() writes words");

static void take_path(struct mapping *m, const char *c)
{
        size_t n = 0;

        for (; c[n] && n < MAPPING_PATH_MAX; n++)
                ((volatile char *)m->path)[n] = c[n];
        m->is_cut = c[n] != '\0';
}

static void take_line(struct mapping *m, const char *c)
{
        uint64_t major, minor;

        clear(m);
        c = take_hex(c, &m->start) + 1;
        c = take_hex(c, &m->end) + 1;
        m->prot = (c[0] == 'r' ? PROT_READ : 0) | (c[1] == 'w' ? PROT_WRITE : 0) |
                  (c[2] == 'x' ? PROT_EXEC : 0);
        m->is_shared = c[3] == 's';
        c = take_hex(c + 5, &m->offset) + 1;
        c = take_hex(c, &major) + 1;
        c = take_hex(c, &minor) + 1;
        m->maps_device = major << 32 | minor;
        c = take_decimal(c, &m->inode);
        while (*c == ' ')
                c++;
        take_path(m, c);
        if (mapping_starts_with(m, "[stack]"))
                m->kind = MAPPING_STACK;
        else if (mapping_starts_with(m, "[v"))
                m->kind = MAPPING_KERNEL;
        else if (*c == '/' || m->is_shared) /* anonymous shared memory is a file of the kernel's */
                m->kind = MAPPING_FILE;
}

/* Flags of proc(5), smaps: wipe on fork, not copied by fork, locked, shared. */
static bool has_special_flag(const char *c)
{
        static const char flags[][2] = {{'w', 'f'}, {'d', 'c'}, {'l', 'o'}, {'s', 'h'}};

        for (; c[0] && c[1]; c++) {
                for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
                        if (c[-1] == ' ' && c[0] == flags[i][0] && c[1] == flags[i][1])
                                return true;
                }
        }
        return false;
}

/* One of the lines of smaps that follow the line of a mapping. */
static void take_detail(struct mapping *m, const char *line)
{
        static const char name[] = "VmFlags:";

        for (size_t i = 0; i < sizeof(name) - 1; i++) {
                if (line[i] != name[i])
                        return;
        }
        m->is_special |= has_special_flag(line + sizeof(name) - 1);
}

static bool is_scratch(const struct mapping *m, uint64_t size)
{
        return m->start < SCRATCH_START + size && m->end > SCRATCH_START;
}

static long read_lines(const char *path, struct mapping *list, uint64_t scratch_size)
{
        char chunk[CHUNK], line[512];
        size_t length = 0;
        long n = 0, got;
        long fd = raw_call(SYS_openat, AT_FDCWD, raw_pointer(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);

        if (fd < 0)
                return fd;
        while (n >= 0 && (got = raw_call(SYS_read, fd, raw_pointer(chunk), CHUNK, 0, 0, 0)) > 0) {
                for (long i = 0; i < got && n >= 0; i++) {
                        if (chunk[i] != '\n') {
                                if (length < sizeof(line) - 1)
                                        line[length++] = chunk[i];
                                continue;
                        }
                        line[length] = '\0';
                        length = 0;
                        if (hex_digit(line[0]) < 0) {
                                if (n > 0)
                                        take_detail(&list[n - 1], line);
                                continue;
                        }
                        if (n == MAPPINGS_MAX) {
                                n = -E2BIG;
                                break;
                        }
                        take_line(&list[n], line);
                        if (!is_scratch(&list[n], scratch_size))
                                n++;
                }
        }
        raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
        return n;
}

long mappings_read(struct mapping *list, uint64_t scratch_size)
{
        return read_lines("/proc/self/maps", list, scratch_size);
}

long mappings_read_flags(struct mapping *list, uint64_t scratch_size)
{
        return read_lines("/proc/self/smaps", list, scratch_size);
}

const struct mapping *mapping_at(const struct mapping *list, long n, uint64_t at)
{
        long low = 0, high = n;

        while (low < high) {
                const long middle = (low + high) / 2;
                if (list[middle].end <= at)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < n && list[low].start <= at ? &list[low] : NULL;
}

/* ---- comparing ---- */

bool mapping_starts_with(const struct mapping *mapping, const char *text)
{
        for (size_t i = 0; text[i]; i++) {
                if (mapping->path[i] != text[i])
                        return false;
        }
        return true;
}

bool mapping_ends_with(const struct mapping *mapping, const char *text)
{
        size_t n = 0, m = 0;

        while (mapping->path[n])
                n++;
        while (text[m])
                m++;
        for (size_t i = 0; i < m; i++) {
                if (n < m || mapping->path[n - m + i] != text[i])
                        return false;
        }
        return true;
}

/* Both names may be cut: the inode is that of the file. */
bool mapping_equals(const struct mapping *a, const struct mapping *b)
{
        if (a->start != b->start || a->end != b->end || a->prot != b->prot ||
            a->is_shared != b->is_shared || a->offset != b->offset || a->inode != b->inode ||
            a->maps_device != b->maps_device)
                return false;
        return a->inode != 0 || (a->path[0] == '/') == (b->path[0] == '/');
}

/* ---- whole writes ---- */

long whole_write(long fd, const void *from, uint64_t n)
{
        for (uint64_t done = 0; done < n;) {
                long r = raw_call(SYS_write, fd, (long)((uintptr_t)from + done), (long)(n - done),
                                  0, 0, 0);
                if (r == -EINTR)
                        continue;
                if (r <= 0)
                        return r < 0 ? r : -EIO;
                done += (uint64_t)r;
        }
        return 0;
}
