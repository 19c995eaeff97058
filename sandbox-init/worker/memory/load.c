/*
 * Replaces the memory of this process by that of another one (mappings.h says what may be used here).
 *
 * Theory of operation. The dump comes from code of the guest: whatever it contains, this process is in the
 * same sandbox before and after, with the same filter, ids, limits and descriptors. The checks here
 * give a reason instead of a crash.
 *
 * Both processes are forks of one template, so that program, libraries, stack and vdso have the same
 * addresses. A mapping that both have is kept. Its pages that are not in the dump are dropped, so that they have the bytes of
 * its file or zeros. Those that are in the dump are written only if they differ: the others remain the template's, and
 * cost nothing. The whole dump is mapped behind the scratch memory meanwhile, to be compared without a copy: its file is sealed. All other mappings are unmapped and mapped as in the dump. Long runs of pages are mapped privately from the
 * memfd that the dump is in, if dump.c allows that: then all branches of a dump have the same pages until they write to them.
 * From the first change on this runs on its own stack, beside its data.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/memory/dump-check.h"
#include "sandbox-init/worker/memory/load.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum {
        STACK_SIZE = 256 * 1024,
        SKIP_MAX = 65536, /* the largest page of a kernel */
};

struct scratch {
        struct dump_header header;
        struct mapping list[MAPPINGS_MAX]; /* of the dump */
        struct mapping own[MAPPINGS_MAX];
        long n_own;
        uint64_t clean
                [MAPPINGS_MAX]; /* of a mapping of the list that is kept: own pages below this address are dropped or compared; else 0 */
        struct load_source from;
        uint64_t file_size, size; /* size: of this struct and the mapped dump behind it */
        uint64_t page;
        int64_t argument;
        uint8_t stack[STACK_SIZE];
};

static const uint64_t scratch_size = (sizeof(struct scratch) + MAPPING_PAGE - 1) &
                                     ~(uint64_t)(MAPPING_PAGE - 1);

void load_done(void)
{
        scratch_unmap(scratch_size);
}

static _Noreturn void fail(void)
{
        for (;;)
                raw_call(SYS_exit_group, LOAD_EXIT_FAILED, 0, 0, 0, 0, 0);
}

/* ---- before the first change ---- */

static long open_file(const struct mapping *m)
{
        struct stat st;

        long fd = raw_call(SYS_openat, AT_FDCWD, raw_pointer(m->path),
                           O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
        if (fd < 0)
                return fd;
        if (raw_call(SYS_fstat, fd, raw_pointer(&st), 0, 0, 0, 0) == 0 && st.st_ino == m->inode &&
            st.st_dev == m->device)
                return fd;
        raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
        return -ESTALE;
}

/* Whether the files of the image are there that this process does not have mapped itself. */
static bool has_files(struct scratch *s)
{
        long from = 0;

        for (uint64_t i = 0; i < s->header.n_mappings; i++) {
                const struct mapping *m = &s->list[i];
                if (mapping_find(s->own, s->n_own, &from, m) || m->kind != MAPPING_FILE)
                        continue;
                long fd = open_file(m);
                if (fd < 0)
                        return false;
                raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
        }
        return true;
}

/* Maps the dump. */
static long map_file(struct scratch *s)
{
        struct stat st;

        long r = raw_call(SYS_fstat, s->from.fd, raw_pointer(&st), 0, 0, 0, 0);
        if (r < 0 || st.st_size <= 0)
                return r < 0 ? r : -EBADMSG;
        r = raw_call(SYS_mmap, (long)(SCRATCH_START + scratch_size), st.st_size, PROT_READ,
                     MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, s->from.fd, 0);
        if (r != (long)(SCRATCH_START + scratch_size))
                return r < 0 && r >= -4095 ? r : -EEXIST;
        s->file_size = (uint64_t)st.st_size;
        s->size = scratch_size + s->file_size;
        return 0;
}

/* The next bytes of the dump, or NULL. All that it has are multiples of words. */
static const uint64_t *take(struct scratch *s, uint64_t n)
{
        const uint64_t at = s->from.at;

        if (at > s->file_size || n > s->file_size - at || at % sizeof(uint64_t) != 0)
                return NULL;
        s->from.at += n;
        return (const uint64_t *)(uintptr_t)(SCRATCH_START + scratch_size + at);
}

static long take_into(struct scratch *s, void *to, uint64_t n)
{
        const uint64_t *from = take(s, n);

        if (!from)
                return -EPIPE;
        for (uint64_t i = 0; i < n / sizeof(*from); i++)
                ((volatile uint64_t *)to)[i] = from[i];
        return 0;
}
_Static_assert(sizeof(struct dump_header) % sizeof(uint64_t) == 0 &&
                       sizeof(struct dump_run) % sizeof(uint64_t) == 0,
               "take_into() copies words");

static long read_header(struct scratch *s, const uint8_t template_id[16], uint64_t channel)
{
        long r = take_into(s, &s->header, sizeof(s->header));
        if (r >= 0)
                r = dump_check_header(&s->header, template_id, raw_thread_pointer(), channel);
        return r < 0 ? r : take_into(s, s->list, s->header.n_mappings * sizeof(s->list[0]));
}

/* ---- the change ---- */

static void drop(uint64_t start, uint64_t end)
{
        if (start < end &&
            raw_call(SYS_madvise, (long)start, (long)(end - start), MADV_DONTNEED, 0, 0, 0) < 0)
                fail();
}

/* Code is never written to: its pages stay, so that they need not be found again. */
static bool is_code(const struct mapping *m)
{
        return m->inode != 0 && m->prot == (PROT_READ | PROT_EXEC);
}

static void unmap_others(struct scratch *s)
{
        long from = 0;

        for (long i = 0; i < s->n_own; i++) {
                const struct mapping *m = &s->own[i], *kept = NULL;
                if (m->kind == MAPPING_KERNEL)
                        continue;
                if (m->kind == MAPPING_STACK)
                        drop(m->start, m->end);
                else if (!(kept = mapping_find(s->list, (long)s->header.n_mappings, &from, m)) &&
                         raw_call(SYS_munmap, (long)m->start, (long)(m->end - m->start), 0, 0, 0,
                                  0) < 0)
                        fail();
                if (kept && !m->is_shared)
                        s->clean[kept - s->list] = is_code(m) ? m->end : m->start;
        }
}

static void map_one(const struct mapping *m)
{
        long fd = m->kind == MAPPING_FILE ? open_file(m) : -1;
        long flags = MAP_FIXED_NOREPLACE | MAP_NORESERVE |
                     (m->is_shared ? MAP_SHARED : MAP_PRIVATE);

        if (m->kind == MAPPING_FILE && fd < 0)
                fail();
        if (fd < 0)
                flags |= MAP_ANONYMOUS;
        if (raw_call(SYS_mmap, (long)m->start, (long)(m->end - m->start), m->prot, flags, fd,
                     fd < 0 ? 0 : (long)m->offset) != (long)m->start)
                fail();
        if (fd >= 0)
                raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static void map_missing(struct scratch *s)
{
        long from = 0;

        for (uint64_t i = 0; i < s->header.n_mappings; i++) {
                const struct mapping *m = &s->list[i];
                if (m->kind != MAPPING_KERNEL && m->kind != MAPPING_STACK &&
                    !mapping_find(s->own, s->n_own, &from, m))
                        map_one(m);
        }
}

static void protect(const struct mapping *m, uint32_t prot)
{
        if (raw_call(SYS_mprotect, (long)m->start, (long)(m->end - m->start), prot, 0, 0, 0) < 0)
                fail();
}

static void open_mapping(struct mapping *m)
{
        if ((m->prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE) || m->is_opened)
                return;
        m->is_opened = 1;
        protect(m, m->prot | PROT_READ | PROT_WRITE);
}

/* Whether it has the code that runs now. A dump that replaced it would run before the descriptor is closed. */
static bool is_own_code(const struct mapping *m)
{
        const uint64_t here = (uintptr_t)&fail;

        return m->start <= here && here < m->end;
}

/* A page of the dump into its place, unless it is there already. */
static void put_page(struct mapping *m, uint64_t at, const uint64_t *from)
{
        volatile uint64_t *to = (uint64_t *)(uintptr_t)at;
        size_t i = 0;

        while (i < MAPPING_PAGE / sizeof(*to) && to[i] == from[i])
                i++;
        if (i == MAPPING_PAGE / sizeof(*to))
                return;
        if (is_own_code(m))
                fail();
        open_mapping(m);
        for (; i < MAPPING_PAGE / sizeof(*to); i++)
                to[i] = from[i];
}

static void put_pages(struct scratch *s, struct mapping *m, const struct dump_run *run)
{
        const uint64_t *from = take(s, run->pages * MAPPING_PAGE);

        if (!from)
                fail();
        if (!(m->prot & PROT_READ))
                open_mapping(m);
        for (uint64_t k = 0; k < run->pages; k++)
                put_page(m, run->start + k * MAPPING_PAGE,
                         from + k * (MAPPING_PAGE / sizeof(*from)));
}

/* Returns false if the run has to be read. */
static bool map_run(struct scratch *s, const struct mapping *m, const struct dump_run *run)
{
        const uint64_t size = run->pages * MAPPING_PAGE;

        if (!run->may_be_mapped || m->kind != MAPPING_ANONYMOUS ||
            m->prot != (PROT_READ | PROT_WRITE) ||
            ((run->start | size | s->from.at) & (s->page - 1)) != 0)
                return false;
        if (raw_call(SYS_mmap, (long)run->start, (long)size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, s->from.fd,
                     (long)s->from.at) != (long)run->start)
                fail();
        if (!take(s, size))
                fail();
        return true;
}

static void read_pages(struct scratch *s)
{
        struct dump_run run;
        uint64_t from = 0;

        for (;;) {
                if (take_into(s, &run, sizeof(run)) < 0)
                        fail();
                if (run.pages == 0)
                        return;
                struct mapping *m = dump_find_run(s->list, s->header.n_mappings, &run, &from);
                if (!m || run.skip > SKIP_MAX)
                        fail();
                uint64_t *clean = &s->clean[m - s->list];
                if (*clean > 0 && !is_code(m)) {
                        drop(*clean, run.start);
                        *clean = run.start + run.pages * MAPPING_PAGE;
                }
                s->from.at += run.skip;
                if (!map_run(s, m, &run))
                        put_pages(s, m, &run);
        }
}

/* Bytes that no run has reached. */
static void drop_rest(struct scratch *s)
{
        for (uint64_t i = 0; i < s->header.n_mappings; i++) {
                if (s->clean[i] > 0)
                        drop(s->clean[i], s->list[i].end);
        }
}

static void unmap_file(const struct scratch *s)
{
        raw_call(SYS_munmap, (long)(SCRATCH_START + scratch_size), (long)s->file_size, 0, 0, 0, 0);
}

static void replace(void *data)
{
        struct scratch *s = data;
        const struct dump_header *h = &s->header;

        raw_call(SYS_brk, (long)h->brk, 0, 0, 0, 0, 0);
        s->n_own = mappings_read(s->own, s->size);
        if (s->n_own < 0)
                fail();
        unmap_others(s);
        map_missing(s);
        read_pages(s);
        drop_rest(s);
        for (uint64_t i = 0; i < h->n_mappings; i++) {
                if (s->list[i].is_opened)
                        protect(&s->list[i], s->list[i].prot);
        }
        raw_call(SYS_close, s->from.fd, 0, 0, 0, 0, 0);
        unmap_file(s);
        *(volatile int64_t *)(uintptr_t)h->number = s->argument;
        cloister_context_resume((const struct context *)(uintptr_t)h->context);
}

long load_replace(const struct load_source *from, const uint8_t template_id[16], uint64_t channel,
                  int64_t argument)
{
        const raw_signals all = ~0ULL;
        struct scratch *s = (struct scratch *)(uintptr_t)SCRATCH_START;

        long r = scratch_map(scratch_size);
        if (r < 0)
                return r;
        s->from = *from;
        s->page = mapping_page_size();
        s->argument = argument;
        r = map_file(s);
        if (r >= 0)
                r = read_header(s, template_id, channel);
        if (r >= 0)
                r = s->n_own = mappings_read(s->own, s->size);
        if (r >= 0)
                r = dump_check_mappings(s->list, s->header.n_mappings, s->own, s->n_own, s->size) &&
                                    has_files(s)
                            ? 0
                            : -EBADMSG;
        if (r < 0) {
                if (s->file_size > 0)
                        unmap_file(s);
                scratch_unmap(scratch_size);
                return r;
        }
        raw_signal_mask(SIG_SETMASK, &all, NULL);
        cloister_context_enter(s->stack + STACK_SIZE, replace, s);
}
