/* Pages that cells write to, made the worker's own again after it was copied. */
#include "sandbox-init/worker/own-pages.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/mappings.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; fails before */
#endif

/* /proc/PID/pagemap, Documentation/admin-guide/mm/pagemap.rst */
#define PRESENT   (UINT64_C(1) << 63)
#define OF_FILE   (UINT64_C(1) << 61)
#define EXCLUSIVE (UINT64_C(1) << 56)

enum { ENTRIES = 256 };

static struct {
        unsigned int copies; /* made so far */
        unsigned int n_runs, n_pages;
        uint64_t page; /* bytes of one */
        struct run {
                uint64_t start, pages;
        } runs[OWN_PAGES_MAX];
} own;

/* At the copy before a look nothing was made the worker's own, so that pages which cells no longer write to are left out. */
static bool is_look(unsigned int copies)
{
        return copies % OWN_PAGES_LEARN == 1;
}

static void add(uint64_t at)
{
        struct run *last = own.n_runs > 0 ? &own.runs[own.n_runs - 1] : NULL;

        own.n_pages++;
        if (last && last->start + last->pages * own.page == at)
                last->pages++;
        else
                own.runs[own.n_runs++] = (struct run){at, 1};
}

static void look_at(long pagemap, uint64_t start, uint64_t end)
{
        uint64_t entries[ENTRIES];

        while (start < end) {
                uint64_t n = (end - start) / own.page;
                if (n > ENTRIES)
                        n = ENTRIES;
                long got = raw_call(SYS_pread64, pagemap, raw_pointer(entries), (long)(n * 8),
                                    (long)(start / own.page * 8), 0, 0);
                if (got < 8)
                        return;
                for (long i = 0; i < got / 8; i++) {
                        uint64_t kind = entries[i] & (PRESENT | OF_FILE | EXCLUSIVE);
                        if (kind == (PRESENT | EXCLUSIVE) && own.n_pages < OWN_PAGES_MAX)
                                add(start + (uint64_t)i * own.page);
                }
                start += (uint64_t)(got / 8) * own.page;
        }
}

static void learn(const struct mapping *list, long n)
{
        uint64_t looked = 0;
        long pagemap = raw_call(SYS_openat, AT_FDCWD, raw_pointer("/proc/self/pagemap"),
                                O_RDONLY | O_CLOEXEC, 0, 0, 0);

        if (pagemap < 0)
                return;
        for (long i = 0; i < n && own.n_pages < OWN_PAGES_MAX; i++) {
                const struct mapping *m = &list[i];
                uint64_t pages = (m->end - m->start) / own.page;
                if (m->is_shared || !(m->prot & PROT_WRITE) || m->kind == MAPPING_KERNEL ||
                    looked + pages > OWN_PAGES_LOOK)
                        continue;
                looked += pages;
                look_at(pagemap, m->start, m->end);
        }
        raw_call(SYS_close, pagemap, 0, 0, 0, 0, 0);
}

void own_pages_before(void)
{
        const uint64_t size = MAPPINGS_MAX * sizeof(struct mapping);

        if (!is_look(own.copies++) || scratch_map(size) < 0)
                return;
        own.n_runs = own.n_pages = 0;
        own.page = mapping_page_size();
        struct mapping *list = (struct mapping *)(uintptr_t)SCRATCH_START;
        learn(list, mappings_read(list, size));
        scratch_unmap(size);
}

void own_pages_after(void)
{
        if (is_look(own.copies))
                return;
        for (unsigned int i = 0; i < own.n_runs; i++)
                raw_call(SYS_madvise, (long)own.runs[i].start, (long)(own.runs[i].pages * own.page),
                         MADV_POPULATE_WRITE, 0, 0, 0);
}

void own_pages_forget(void)
{
        own.copies = 0;
}
