#include "sandbox-init/worker/memory/dump-check.h"

#include <errno.h>

/* Of user space, or above it. On aarch64 a process has 48 bits, and 52 where it asks for an address up there. */
#if defined(__aarch64__)
#define ADDRESS_END (UINT64_C(1) << 52)
#else
#define ADDRESS_END (UINT64_C(1) << 47)
#endif

enum { ERRNO_MAX = 4095 };

long dump_check_header(const struct dump_header *h, const uint8_t template_id[16],
                       uint64_t thread_pointer, uint64_t channel)
{
        bool is_other = false;

        for (int i = 0; i < 16; i++)
                is_other |= h->template_id[i] != template_id[i];
        if (h->magic != DUMP_MAGIC || h->n_mappings > MAPPINGS_MAX || h->refusal > ERRNO_MAX)
                return -EBADMSG;
        if (h->refusal != 0)
                return -(long)h->refusal;
        if (is_other)
                return -ESTALE;
        return h->thread_pointer != thread_pointer || h->channel != channel ? -EBADMSG : 0;
}

static bool is_sane(const struct mapping *m, uint64_t after, uint64_t scratch_size)
{
        return m->start >= after && m->start < m->end &&
               (m->kind == MAPPING_KERNEL || m->end <= ADDRESS_END) &&
               ((m->start | m->end | m->offset) & (MAPPING_PAGE - 1)) == 0 &&
               m->kind < MAPPING_KINDS && !(m->prot & ~7U) && !m->is_opened &&
               m->path[MAPPING_PATH_MAX] == '\0' &&
               (m->end <= SCRATCH_START || m->start >= SCRATCH_START + scratch_size);
}

const struct mapping *mapping_find(const struct mapping *list, long n, long *from,
                                   const struct mapping *m)
{
        while (*from < n && list[*from].start < m->start)
                ++*from;
        return *from < n && mapping_equals(&list[*from], m) ? &list[*from] : NULL;
}

bool dump_check_mappings(const struct mapping *list, uint64_t n, const struct mapping *own,
                         long n_own, uint64_t scratch_size)
{
        uint64_t after = 0;
        long from = 0;

        for (uint64_t i = 0; i < n; i++) {
                const struct mapping *m = &list[i];
                if (!is_sane(m, after, scratch_size))
                        return false;
                after = m->end;
                if (!mapping_find(own, n_own, &from, m) &&
                    (m->kind == MAPPING_KERNEL || m->kind == MAPPING_PROGRAM))
                        return false;
        }
        return true;
}

struct mapping *dump_find_run(struct mapping *list, uint64_t n, const struct dump_run *run,
                              uint64_t *from)
{
        if (run->pages > ADDRESS_END / MAPPING_PAGE || run->start & (MAPPING_PAGE - 1))
                return NULL;
        while (*from < n && list[*from].end <= run->start)
                ++*from;
        struct mapping *m = &list[*from];
        if (*from == n || run->start < m->start ||
            run->pages > (m->end - run->start) / MAPPING_PAGE || m->kind == MAPPING_KERNEL ||
            m->is_shared)
                return NULL;
        return m;
}
