/*
 * Replaces the memory of this process by that of another one (mappings.h says what may be used here).
 *
 * Theory of operation. The dump comes from code of the guest: whatever it contains, this process is in the
 * same sandbox before and after, with the same filter, ids, limits and descriptors. The checks here
 * give a reason instead of a crash.
 *
 * Both processes are forks of one template, so that program, libraries, stack and vdso have the same
 * addresses. A mapping that both have is kept; its own pages are dropped, so that it has the bytes of
 * its file or zeros, and then those of the dump. All others are unmapped and mapped as in the dump.
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

enum { STACK_SIZE = 256 * 1024 };

struct scratch {
        struct dump_header header;
        struct mapping list[MAPPINGS_MAX]; /* of the dump */
        struct mapping own[MAPPINGS_MAX];
        long n_own;
        long fd;
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

static long read_header(struct scratch *s, const uint8_t template_id[16], uint64_t channel)
{
        long r = whole_read(s->fd, &s->header, sizeof(s->header));
        if (r >= 0)
                r = dump_check_header(&s->header, template_id, raw_thread_pointer(), channel);
        return r < 0 ? r : whole_read(s->fd, s->list, s->header.n_mappings * sizeof(s->list[0]));
}

/* ---- the change ---- */

static void drop_own(struct scratch *s)
{
        long from = 0;

        for (long i = 0; i < s->n_own; i++) {
                const struct mapping *m = &s->own[i];
                if (m->kind == MAPPING_KERNEL)
                        continue;
                bool stays = m->kind == MAPPING_STACK ||
                             mapping_find(s->list, (long)s->header.n_mappings, &from, m);
                long size = (long)(m->end - m->start), r = 0;
                if (!stays)
                        r = raw_call(SYS_munmap, (long)m->start, size, 0, 0, 0, 0);
                else if (!m->is_shared)
                        r = raw_call(SYS_madvise, (long)m->start, size, MADV_DONTNEED, 0, 0, 0);
                if (r < 0)
                        fail();
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

/* The mapping that has all of the run, made writable. */
static struct mapping *open_mapping(struct scratch *s, const struct dump_run *run, uint64_t *from)
{
        struct mapping *m = dump_find_run(s->list, s->header.n_mappings, run, from);

        if (m && !(m->prot & PROT_WRITE) && !m->is_opened) {
                m->is_opened = 1;
                protect(m, m->prot | PROT_READ | PROT_WRITE);
        }
        return m;
}

static void read_pages(struct scratch *s)
{
        struct dump_run run;
        uint64_t from = 0;

        for (;;) {
                if (whole_read(s->fd, &run, sizeof(run)) < 0)
                        fail();
                if (run.pages == 0)
                        return;
                if (!open_mapping(s, &run, &from) ||
                    whole_read(s->fd, (void *)(uintptr_t)run.start, run.pages * MAPPING_PAGE) < 0)
                        fail();
        }
}

static void replace(void *data)
{
        struct scratch *s = data;
        const struct dump_header *h = &s->header;

        raw_call(SYS_brk, (long)h->brk, 0, 0, 0, 0, 0);
        s->n_own = mappings_read(s->own, scratch_size);
        if (s->n_own < 0)
                fail();
        drop_own(s);
        map_missing(s);
        read_pages(s);
        for (uint64_t i = 0; i < h->n_mappings; i++) {
                if (s->list[i].is_opened)
                        protect(&s->list[i], s->list[i].prot);
        }
        raw_call(SYS_close, s->fd, 0, 0, 0, 0, 0);
        *(volatile int64_t *)(uintptr_t)h->number = s->argument;
        cloister_context_resume((const struct context *)(uintptr_t)h->context);
}

long load_replace(long fd, const uint8_t template_id[16], uint64_t channel, int64_t argument)
{
        const raw_signals all = ~0ULL;
        struct scratch *s = (struct scratch *)(uintptr_t)SCRATCH_START;

        long r = scratch_map(scratch_size);
        if (r < 0)
                return r;
        s->fd = fd;
        s->argument = argument;
        r = read_header(s, template_id, channel);
        if (r >= 0)
                r = s->n_own = mappings_read(s->own, scratch_size);
        if (r >= 0)
                r = dump_check_mappings(s->list, s->header.n_mappings, s->own, s->n_own,
                                        scratch_size) &&
                                    has_files(s)
                            ? 0
                            : -EBADMSG;
        if (r < 0) {
                scratch_unmap(scratch_size);
                return r;
        }
        raw_signal_mask(SIG_SETMASK, &all, NULL);
        cloister_context_enter(s->stack + STACK_SIZE, replace, s);
}
