/*
 * A dump as a worker that will become a branch reads it from code of the guest: its header, its
 * mappings, and the heads of its runs of pages. The pages are left out: the next head follows.
 */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "sandbox-init/worker/memory/dump-check.h"
#include "tests/fuzz/fuzz.h"

enum { THREAD_POINTER = 0x7000, CHANNEL = 900, SCRATCH_SIZE = 1024 * MAPPING_PAGE };

#define ADDRESS_END (UINT64_C(1) << 47)

static const uint8_t template_id[16] = "template";

/* Of the process that reads it. */
static const struct mapping own[] = {
        {.start = 0x400000,
         .end = 0x500000,
         .maps_device = 1,
         .inode = 7,
         .prot = PROT_READ | PROT_EXEC,
         .kind = MAPPING_PROGRAM,
         .path = "/memfd:cloister-worker (deleted)"},
        {.start = 0x600000, .end = 0x680000, .prot = PROT_READ | PROT_WRITE, .path = "[heap]"},
        {.start = 0x7f0000000000,
         .end = 0x7f0000200000,
         .offset = 0x1000,
         .maps_device = 2,
         .inode = 9,
         .prot = PROT_READ,
         .kind = MAPPING_FILE,
         .path = "/usr/lib/libc.so.6"},
        {.start = 0x7ffd00000000,
         .end = 0x7ffd00021000,
         .prot = PROT_READ | PROT_WRITE,
         .kind = MAPPING_STACK,
         .path = "[stack]"},
        {.start = 0x7ffd00030000,
         .end = 0x7ffd00032000,
         .prot = PROT_READ | PROT_EXEC,
         .kind = MAPPING_KERNEL,
         .path = "[vdso]"},
        {.start = 0xffffffffff600000,
         .end = 0xffffffffff601000,
         .prot = PROT_EXEC,
         .kind = MAPPING_KERNEL,
         .path = "[vsyscall]"},
};
enum { N_OWN = sizeof(own) / sizeof(own[0]) };

static bool is_own(const struct mapping *m)
{
        for (int i = 0; i < N_OWN; i++) {
                if (mapping_equals(&own[i], m))
                        return true;
        }
        return false;
}

/* Properties that load.c relies on without a check. */
static void check_list(const struct mapping *list, uint64_t n)
{
        for (uint64_t i = 0; i < n; i++) {
                const struct mapping *m = &list[i];

                assert(m->start < m->end && (i == 0 || list[i - 1].end <= m->start));
                assert(m->start % MAPPING_PAGE == 0 && m->end % MAPPING_PAGE == 0);
                assert(m->end <= SCRATCH_START || m->start >= SCRATCH_START + SCRATCH_SIZE);
                assert(m->kind < MAPPING_KINDS && m->prot <= 7 && !m->is_opened);
                assert(memchr(m->path, '\0', sizeof(m->path)));
                if (m->kind == MAPPING_KERNEL || m->kind == MAPPING_PROGRAM)
                        assert(is_own(m));
                else
                        assert(m->end <= ADDRESS_END);
        }
}

static bool take(const uint8_t **data, size_t *n, void *to, size_t size)
{
        if (*n < size)
                return false;
        memcpy(to, *data, size);
        *data += size;
        *n -= size;
        return true;
}

/* Whether all runs up to the one without pages may be read to where they say. */
static bool takes_runs(const uint8_t *data, size_t n, struct mapping *list, uint64_t n_list)
{
        struct dump_run run;
        uint64_t from = 0;

        while (take(&data, &n, &run, sizeof(run))) {
                if (run.pages == 0)
                        return true;
                const struct mapping *m = dump_find_run(list, n_list, &run, &from);
                if (!m)
                        return false;
                assert(m >= list && m < list + n_list && from < n_list);
                assert(run.start >= m->start && run.start + run.pages * MAPPING_PAGE <= m->end);
                assert(m->kind != MAPPING_KERNEL && !m->is_shared);
        }
        return false;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static struct mapping list[MAPPINGS_MAX];
        struct dump_header header;

        if (!take(&data, &n, &header, sizeof(header)))
                return false;
        long r = dump_check_header(&header, template_id, THREAD_POINTER, CHANNEL);
        assert(r <= 0 && r >= -4095);
        if (r < 0 || !take(&data, &n, list, header.n_mappings * sizeof(list[0])))
                return false;
        bool fits = dump_check_mappings(list, header.n_mappings, own, N_OWN, SCRATCH_SIZE);
        if (!fits)
                return false;
        check_list(list, header.n_mappings);
        return takes_runs(data, n, list, header.n_mappings);
}

FUZZ_TARGET
