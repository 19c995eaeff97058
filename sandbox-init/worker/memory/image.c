/* The heap of a template as a sealed file (mappings.h says what may be used here). */
#include "sandbox-init/worker/memory/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/memory/mappings.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum {
        ENTRIES = 512,
        WINDOW = 16384, /* the parts into which memory is divided, unless a page is larger */
        WINDOW_MOST = 65536,
        WINDOWS_MAX = MAPPINGS_MAX / 2,
        COLD_MIN = 65536,  /* a mapping costs each fork as much as the page tables of this memory */
        HOLE_MAX = 131072, /* memory that was never used, between parts of a run */
        PIECE = 1024 * 1024, /* the memory that exists twice meanwhile */
        RUNS_MAX = 512,      /* each adds mappings, which each fork copies */
};

struct scratch {
        struct mapping list[MAPPINGS_MAX];
        uint64_t entries[ENTRIES];
        uint64_t copy[WINDOW_MOST / sizeof(uint64_t)];
};

static const uint64_t scratch_size = (sizeof(struct scratch) + MAPPING_PAGE - 1) &
                                     ~(uint64_t)(MAPPING_PAGE - 1);

struct image {
        struct scratch *scratch; /* NULL: none is being made */
        long draft;
        long file; /* it has no holes: a session could fill these by mremap() */
        long pagemap;
        uint64_t drafted, written; /* bytes of these files */
        uint64_t page, window, runs, n_windows;
};

static uint64_t lesser(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static void close_one(long fd)
{
        if (fd >= 0)
                raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static bool is_empty(long fd)
{
        long seals = raw_call(SYS_fcntl, fd, F_GET_SEALS, 0, 0, 0, 0);

        return seals >= 0 && !(seals & ~(long)F_SEAL_EXEC) &&
               raw_call(SYS_lseek, fd, 0, SEEK_END, 0, 0, 0) == 0;
}

static long open_image(struct image *i, long draft, long file)
{
        if (!is_empty(draft) || !is_empty(file))
                return -EBADF;
        long r = scratch_map(scratch_size);
        if (r < 0)
                return r;
        *i = (struct image){.scratch = (struct scratch *)(uintptr_t)SCRATCH_START,
                            .draft = draft,
                            .file = file,
                            .page = mapping_page_size()};
        i->window = i->page > WINDOW ? i->page : WINDOW;
        i->pagemap = pagemap_open();
        return i->pagemap < 0 ? i->pagemap : 0;
}

static void close_image(struct image *i)
{
        close_one(i->pagemap);
        close_one(i->draft);
        close_one(i->file);
        scratch_unmap(scratch_size);
        i->scratch = NULL;
}

/* Reads the entries of pages from `at` on. Returns their number or negative errno. */
static long read_entries(const struct image *i, uint64_t at, uint64_t end)
{
        uint64_t n = lesser((end - at) / i->page, ENTRIES);
        const long r = pagemap_read(i->pagemap, i->page, at, n, i->scratch->entries);

        return r < 0 ? r : (long)n;
}

static long map(uint64_t at, uint64_t n, long fd, uint64_t offset)
{
        long flags = MAP_PRIVATE | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0);

        return raw_call(SYS_mmap, (long)at, (long)n, PROT_READ | PROT_WRITE, flags, fd,
                        (long)offset);
}

/* ---- the draft ---- */

/* A page fault maps pages around the one that is used, but not those of another mapping. So this makes each second window one. */
static void separate(struct image *i, uint64_t at, uint64_t end)
{
        for (at = (at + i->window) & ~(2 * i->window - 1); at < end; at += 2 * i->window) {
                i->n_windows += 2;
                if (i->n_windows > WINDOWS_MAX)
                        return;
                raw_call(SYS_madvise, (long)at, (long)lesser(end - at, i->window), MADV_RANDOM, 0,
                         0, 0);
        }
}

static long draft_piece(struct image *i, uint64_t at, uint64_t n)
{
        long r = whole_write(i->draft, (const void *)(uintptr_t)at, n);

        if (r >= 0)
                r = map(at, n, i->draft, i->drafted);
        if (r != (long)at)
                return r < 0 ? r : -EIO;
        i->drafted += n;
        separate(i, at, at + n);
        return 0;
}

static long draft_run(struct image *i, uint64_t at, uint64_t end)
{
        long r = ++i->runs > RUNS_MAX ? -E2BIG : 0;

        for (; at < end && r >= 0; at += lesser(end - at, PIECE))
                r = draft_piece(i, at, lesser(end - at, PIECE));
        return r;
}

static long draft_part(struct image *i, uint64_t at, uint64_t end)
{
        uint64_t run = 0, run_end = 0;

        while (at < end) {
                long n = read_entries(i, at, end);
                if (n <= 0)
                        return n;
                for (long k = 0; k < n; k++, at += i->page) {
                        uint64_t e = i->scratch->entries[k];
                        bool is_own = e & (PAGE_PRESENT | PAGE_SWAPPED) && !(e & PAGE_OF_FILE);
                        if (run_end > 0 && is_own && at - run_end > HOLE_MAX) {
                                long r = draft_run(i, run, run_end);
                                if (r < 0)
                                        return r;
                                run_end = 0;
                        }
                        if (is_own && run_end == 0)
                                run = at;
                        if (is_own)
                                run_end = at + i->page;
                }
        }
        return run_end > 0 ? draft_run(i, run, run_end) : 0;
}

static long draft_range(struct image *i, const struct mapping *m, const struct image_range *range)
{
        uint64_t start = m->start > range->start ? m->start : range->start;
        uint64_t end = lesser(m->end, range->end);

        start = (start + i->page - 1) & ~(i->page - 1);
        end &= ~(i->page - 1);
        return start < end ? draft_part(i, start, end) : 0;
}

static bool is_plain(const struct mapping *m)
{
        return m->kind == MAPPING_ANONYMOUS && !m->is_shared && !m->is_special && m->inode == 0 &&
               m->prot == (PROT_READ | PROT_WRITE);
}

/* Of a mapping of a file: whether the process has no page of its own in it. */
static bool is_clean(const struct image *i, const struct mapping *m)
{
        for (uint64_t at = m->start; at < m->end;) {
                long n = read_entries(i, at, m->end);
                if (n <= 0)
                        return false;
                for (long k = 0; k < n; k++, at += i->page) {
                        uint64_t e = i->scratch->entries[k];
                        if (e & (PAGE_PRESENT | PAGE_SWAPPED) && !(e & PAGE_OF_FILE))
                                return false;
                }
        }
        return true;
}

/* Imports have used nearly all code and constants of CPython. Afterwards inherit.c passes on page tables of those only that a cell uses. */
static void forget_file(const struct image *i, const struct mapping *m)
{
        if (m->kind == MAPPING_FILE && !m->is_shared && !(m->prot & PROT_WRITE) && is_clean(i, m))
                raw_call(SYS_madvise, (long)m->start, (long)(m->end - m->start), MADV_DONTNEED, 0,
                         0, 0);
}

static struct image_range find_heap(const struct mapping *list, long n)
{
        for (long k = 0; k < n; k++) {
                if (mapping_starts_with(&list[k], "[heap]"))
                        return (struct image_range){list[k].start,
                                                    (uint64_t)raw_call(SYS_brk, 0, 0, 0, 0, 0, 0)};
        }
        return (struct image_range){0, 0};
}

static struct image image;

long image_begin(long draft, long file, const struct image_range *ranges, long n_ranges)
{
        struct image *i = &image;

        long r = open_image(i, draft, file);
        if (r < 0) {
                if (i->scratch)
                        close_image(i);
                return r;
        }
        const struct mapping *list = i->scratch->list;
        long n = r = mappings_read_flags(i->scratch->list, scratch_size);
        struct image_range heap = find_heap(list, n);
        for (long k = 0; k < n && r >= 0; k++) {
                forget_file(i, &list[k]);
                if (!is_plain(&list[k]))
                        continue;
                r = draft_range(i, &list[k], &heap);
                for (long j = 0; j < n_ranges && r >= 0; j++)
                        r = draft_range(i, &list[k], &ranges[j]);
        }
        return r < 0 ? r : 0;
}

/* ---- the image ---- */

/* A part of the heap may be gone: no session may be made. */
static _Noreturn void lose(void)
{
        for (;;)
                raw_call(SYS_exit_group, 1, 0, 0, 0, 0, 0);
}

static void copy_words(volatile uint64_t *to, const volatile uint64_t *from, uint64_t n)
{
        for (uint64_t k = 0; k < n / sizeof(*to); k++)
                to[k] = from[k];
}

/* Does not touch a page that has only zeros. */
static void put_page(volatile uint64_t *to, const uint64_t *from)
{
        uint64_t any = 0;

        for (uint64_t k = 0; k < MAPPING_PAGE / sizeof(*to); k++)
                any |= from[k];
        if (any)
                copy_words(to, from, MAPPING_PAGE);
}

/* Makes memory anonymous again. */
static void keep(const struct image *i, uint64_t at, uint64_t end)
{
        uint64_t n;

        for (; at < end; at += n) {
                volatile uint64_t *place = (uint64_t *)(uintptr_t)at;
                n = lesser(end - at, i->window);
                copy_words(i->scratch->copy, place, n);
                if (map(at, n, -1, 0) != (long)at)
                        lose();
                for (uint64_t k = 0; k < n; k += MAPPING_PAGE)
                        put_page(place + k / sizeof(*place), i->scratch->copy + k / sizeof(*place));
        }
}

/* draft: the offset there. */
static long seal_piece(struct image *i, uint64_t at, uint64_t n, uint64_t draft)
{
        long r = whole_write(i->file, (const void *)(uintptr_t)at, n);

        if (r >= 0)
                r = map(at, n, i->file, i->written);
        if (r != (long)at)
                return r < 0 ? r : -EIO;
        i->written += n;
        raw_call(SYS_fallocate, i->draft, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (long)draft,
                 (long)n, 0, 0);
        return 0;
}

/* Makes memory a part of the image, unless there is too little of it. */
static long put(struct image *i, uint64_t at, uint64_t end, uint64_t draft)
{
        const uint64_t start = at;
        long r = 0;

        if (end - at < COLD_MIN) {
                keep(i, at, end);
                return 0;
        }
        for (; at < end && r >= 0; at += r < 0 ? 0 : lesser(end - at, PIECE))
                r = seal_piece(i, at, lesser(end - at, PIECE), draft + at - start);
        /* Each page counts for all processes that have it mapped: the template is one of them. */
        raw_call(SYS_madvise, (long)start, (long)(at - start), MADV_POPULATE_READ, 0, 0, 0);
        keep(i, at, end);
        return r;
}

/* Whether the process has used one of these pages. */
static bool is_used(const struct image *i, uint64_t at, uint64_t end)
{
        long n = read_entries(i, at, end);

        for (long k = 0; k < n; k++) {
                if (i->scratch->entries[k] & (PAGE_PRESENT | PAGE_SWAPPED))
                        return true;
        }
        return n <= 0;
}

/* Of mappings of the draft. r: a failure before. */
static long divide(struct image *i, const struct mapping *part, long r)
{
        uint64_t from = part->start;
        bool was_used = true;

        for (uint64_t at = from, end; at < part->end; at = end) {
                end = lesser((at + i->window) & ~(i->window - 1), part->end);
                bool used = r < 0 || is_used(i, at, end);
                if (used == was_used)
                        continue;
                if (was_used)
                        keep(i, from, at);
                else
                        r = put(i, from, at, part->offset + from - part->start);
                from = at;
                was_used = used;
        }
        if (was_used)
                keep(i, from, part->end);
        else
                r = put(i, from, part->end, part->offset + from - part->start);
        return r;
}

static bool is_draft(const struct mapping *m)
{
        return mapping_starts_with(m, "/memfd:cloister-draft") && m->inode != 0 && !m->is_shared;
}

/* Whether it continues a part of the draft. */
static bool follows(const struct mapping *part, const struct mapping *next)
{
        return is_draft(next) && next->start == part->end &&
               next->offset == part->offset + (part->end - part->start);
}

long image_end(void)
{
        struct image *i = &image;

        if (!i->scratch)
                return 0;
        long n = mappings_read(i->scratch->list, scratch_size);
        if (n < 0)
                lose();
        struct mapping *list = i->scratch->list;
        long r = 0;
        for (long k = 0; k < n; k++) {
                if (!is_draft(&list[k]))
                        continue;
                struct mapping *part = &list[k];
                for (; k + 1 < n && follows(part, &list[k + 1]); k++)
                        part->end = list[k + 1].end;
                r = divide(i, part, r);
        }
        long sealed = raw_call(SYS_fcntl, i->file, F_ADD_SEALS,
                               F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, 0, 0, 0);
        raw_call(SYS_ftruncate, i->draft, 0, 0, 0, 0, 0); /* the monitor has it open */
        close_image(i);
        return r < 0 ? r : sealed;
}
