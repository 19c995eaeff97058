#include "sandbox-init/worker/lock-owners.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/memory/mappings.h"

enum {
        LOCKS_MAX = 1024,
        STACK_MAX = 256 * 1024,         /* of a holder's stack: what is searched */
        OBJECT_MAX = 4096,              /* where an object ends that has a lock */
        SEARCHED_MAX = 8 * 1024 * 1024, /* for one holder */
        STATIC_MAX = 4 * 1024 * 1024,   /* of anonymous memory behind a library's file: its .bss */
        RECENT = 16,
        ENTRIES = 128,
        COUNT_MAX = 4096,  /* how often a lock is taken by its holder, and how many wait */
        KIND_SHARED = 128, /* of pthread_mutex_t */
        SPINS_MAX = 1000,
        WRITE_LOCKED =
                3, /* of pthread_rwlock_t: PTHREAD_RWLOCK_WRPHASE | PTHREAD_RWLOCK_WRLOCKED */
        READERS_MAX = COUNT_MAX << 3,
};
#define ELF_MAGIC  0x464c457fU /* ELFMAG, little-endian */
#define FUTEX_USED 2U          /* PTHREAD_RWLOCK_FUTEX_USED */

static struct {
        int32_t *owner[LOCKS_MAX];
        uint16_t holder[LOCKS_MAX];
        unsigned n;
} found;

/* The memory that was searched last for a holder: many addresses on a stack are near each other. */
struct searched {
        struct {
                uint64_t start, end;
        } recent[RECENT];
        unsigned next;
        uint64_t bytes;
};

struct search {
        const struct lock_holder *holders;
        unsigned n;
        uint32_t lowest, range; /* of their ids */
        const struct mapping *list;
        long n_mappings, pagemap;
};

static const uint64_t scratch_size = (MAPPINGS_MAX * sizeof(struct mapping) + MAPPING_PAGE - 1) &
                                     ~(uint64_t)(MAPPING_PAGE - 1);

static bool is_mutex(const struct __pthread_mutex_s *m)
{
        const int kind = m->__kind & ~KIND_SHARED;

        return (m->__lock == 1 || m->__lock == 2) && m->__nusers == 1 && !m->__list.__prev &&
               !m->__list.__next && m->__elision == 0 && m->__spins >= 0 &&
               m->__spins <= SPINS_MAX &&
               ((kind == PTHREAD_MUTEX_RECURSIVE && m->__count >= 1 && m->__count <= COUNT_MAX) ||
                (kind == PTHREAD_MUTEX_ERRORCHECK && m->__count == 0));
}

static bool is_rwlock(const struct __pthread_rwlock_arch_t *l)
{
        return (l->__readers & WRITE_LOCKED) == WRITE_LOCKED && l->__readers <= READERS_MAX &&
               (l->__writers & INT32_MAX) <= COUNT_MAX && (l->__wrphase_futex & ~FUTEX_USED) == 1 &&
               (l->__writers_futex & ~FUTEX_USED) == 1 && l->__pad3 == 0 && l->__pad4 == 0 &&
               (l->__shared == 0 || l->__shared == 1) && l->__rwelision == 0 && l->__pad2 == 0 &&
               l->__flags <= 3;
}

static void note(int32_t *owner, unsigned holder)
{
        for (unsigned i = 0; i < found.n; i++) {
                if (found.owner[i] == owner)
                        return;
        }
        if (found.n < LOCKS_MAX) {
                found.owner[found.n] = owner;
                found.holder[found.n++] = (uint16_t)holder;
        }
}

static const struct mapping *mapping_of(const struct search *s, uint64_t at)
{
        const struct mapping *m = mapping_at(s->list, s->n_mappings, at);

        return m && m->kind != MAPPING_KERNEL && !m->is_shared &&
                               (m->prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE)
                       ? m
                       : NULL;
}

/* Whether n bytes from there on can be written to, fewer than a page has; read: an address in the page that was read. They may be in two mappings that
 * follow each other: of a heap, the first part may be mapped from a file (image.h). */
static bool has(const struct search *s, uint64_t from, uint64_t n, uint64_t read)
{
        const uint64_t last = from + n - sizeof(uint64_t);

        return (from / MAPPING_PAGE == read / MAPPING_PAGE || mapping_of(s, from)) &&
               (last / MAPPING_PAGE == read / MAPPING_PAGE ||
                (mapping_of(s, last) && page_is_readable(last)));
}

/* Both locks have the holder's id in the first half of 8 bytes. at: of it. */
static void check(const struct search *s, uint64_t at, unsigned holder)
{
        const uint64_t mutex = at - offsetof(struct __pthread_mutex_s, __owner),
                       rwlock = at - offsetof(struct __pthread_rwlock_arch_t, __cur_writer);

        if ((has(s, mutex, sizeof(struct __pthread_mutex_s), at) &&
             is_mutex((const struct __pthread_mutex_s *)(uintptr_t)mutex)) ||
            (has(s, rwlock, sizeof(struct __pthread_rwlock_arch_t), at) &&
             is_rwlock((const struct __pthread_rwlock_arch_t *)(uintptr_t)rwlock)))
                note((int32_t *)(uintptr_t)at, holder);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

/* One holder, or all of them if holder is n. */
static void search_page(const struct search *s, uint64_t from, uint64_t to, unsigned holder)
{
        const unsigned first = holder == s->n ? 0 : holder,
                       end = holder == s->n ? s->n : holder + 1;

        for (uint64_t at = (from + 7) & ~UINT64_C(7); at + sizeof(uint64_t) <= to;
             at += sizeof(uint64_t)) {
                const uint64_t word = *(const uint64_t *)(uintptr_t)at;
                /* Behind the id is 0 or 1, __nusers or __shared. */
                if ((word & ~(UINT64_C(1) << 32)) - s->lowest > s->range)
                        continue;
                for (unsigned i = first; i < end; i++) {
                        if (s->holders[i].id == (int32_t)word)
                                check(s, at, i);
                }
        }
}

/* A page that this process has not written contains no lock that it holds. */
static void search(const struct search *s, uint64_t from, uint64_t to, unsigned holder)
{
        uint64_t entries[ENTRIES];

        for (uint64_t page = from & ~(uint64_t)(MAPPING_PAGE - 1); page < to;) {
                const uint64_t n = lesser((to - page + MAPPING_PAGE - 1) / MAPPING_PAGE, ENTRIES);
                if (pagemap_read(s->pagemap, MAPPING_PAGE, page, n, entries) < 0)
                        return;
                for (uint64_t i = 0; i < n; i++, page += MAPPING_PAGE) {
                        if (page_is_own(entries[i]) && mapping_of(s, page))
                                search_page(s, page < from ? from : page,
                                            lesser(to, page + MAPPING_PAGE), holder);
                }
        }
}

static void search_object(const struct search *s, uint64_t object, unsigned holder,
                          struct searched *searched)
{
        if (!mapping_of(s, object))
                return;
        const uint64_t end = object + OBJECT_MAX;
        for (unsigned i = 0; i < RECENT; i++) {
                if (object >= searched->recent[i].start && object < searched->recent[i].end)
                        object = searched->recent[i].end;
        }
        if (object >= end)
                return;
        search(s, object, end, holder);
        searched->bytes += end - object;
        searched->recent[searched->next].start = object;
        searched->recent[searched->next].end = end;
        searched->next = (searched->next + 1) % RECENT;
}

static void search_objects(const struct search *s, unsigned holder)
{
        const struct lock_holder *h = &s->holders[holder];
        const uint64_t start = (uint64_t)h->registers[REG_RSP] & ~UINT64_C(7);
        const struct mapping *stack = mapping_of(s, start);
        struct searched searched = {0};

        if (!stack)
                return;
        for (unsigned i = 0; i < REG_RIP; i++)
                search_object(s, (uint64_t)h->registers[i], holder, &searched);
        const uint64_t end = start + lesser(stack->end - start, STACK_MAX);
        for (uint64_t at = start; at < end && searched.bytes < SEARCHED_MAX; at += sizeof(uint64_t))
                search_object(s, *(const uint64_t *)(uintptr_t)at, holder, &searched);
}

/* m: the first mapping of a file. Returns where the variables of the library end that it is, or 0: behind them the kernel may have put other memory
 * into the same mapping. */
static uint64_t end_of_library(const struct mapping *m)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)(uintptr_t)m->start;
        uint64_t first = UINT64_MAX, end = 0;

        if (!(m->prot & PROT_READ) || !page_is_readable(m->start) ||
            *(const uint32_t *)head->e_ident != ELF_MAGIC || head->e_phoff > MAPPING_PAGE ||
            head->e_phnum > (MAPPING_PAGE - head->e_phoff) / sizeof(Elf64_Phdr))
                return 0;
        const Elf64_Phdr *part = (const Elf64_Phdr *)(uintptr_t)(m->start + head->e_phoff);
        for (unsigned i = 0; i < head->e_phnum; i++) {
                const uint64_t part_end = part[i].p_vaddr + part[i].p_memsz;
                if (part[i].p_type != PT_LOAD)
                        continue;
                first = lesser(first, part[i].p_vaddr & ~(uint64_t)(MAPPING_PAGE - 1));
                end = part_end > end ? part_end : end;
        }
        return m->start + end - first;
}

static void search_static(const struct search *s)
{
        uint64_t end = 0; /* of the library before */

        for (long i = 0; i < s->n_mappings; i++) {
                const struct mapping *m = &s->list[i];
                const bool is_file = m->kind == MAPPING_FILE && m->path[0] == '/' &&
                                     !mapping_starts_with(m, "/memfd:");
                const bool is_bss = m->kind == MAPPING_ANONYMOUS && m->start < end;
                if (is_file && m->offset == 0)
                        end = end_of_library(m);
                if (mapping_of(s, m->start) && (is_file || is_bss))
                        search(s, m->start,
                               is_bss ? lesser(lesser(m->end, end), m->start + STATIC_MAX) : m->end,
                               s->n);
        }
}

void lock_owners_find(const struct lock_holder *holders, unsigned n)
{
        struct mapping *list = (struct mapping *)(uintptr_t)SCRATCH_START;

        found.n = 0;
        if (scratch_map(scratch_size) < 0)
                return;
        struct search s = {.holders = holders, .n = n, .lowest = UINT32_MAX, .list = list};
        uint32_t highest = 0;
        for (unsigned i = 0; i < n; i++) {
                const uint32_t id = (uint32_t)holders[i].id;
                s.lowest = id < s.lowest ? id : s.lowest;
                highest = id > highest ? id : highest;
        }
        s.range = highest - s.lowest;
        s.n_mappings = mappings_read(list, scratch_size);
        s.pagemap = pagemap_open();
        for (unsigned i = 0; i < n && s.n_mappings > 0; i++)
                search_objects(&s, i);
        search_static(&s);
        raw_call(SYS_close, s.pagemap, 0, 0, 0, 0, 0);
        scratch_unmap(scratch_size);
}

void lock_owners_renew(const int32_t *ids)
{
        for (unsigned i = 0; i < found.n; i++)
                *found.owner[i] = ids[found.holder[i]];
        found.n = 0;
}
