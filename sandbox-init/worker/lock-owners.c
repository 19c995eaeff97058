#include "sandbox-init/worker/lock-owners.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/memory/mappings.h"

enum {
        LOCKS_MAX = 1024,
        STACK_MAX = 256 * 1024, /* of a holder's stack: what is searched */
        OBJECTS_MAX = 8192,     /* of all holders, each of two pages */
        RECENT = 1024,
        ENTRIES = 128,
        SCRATCH_SIZE = MAPPINGS_MAX * sizeof(struct mapping),
        COUNT_MAX = 4096, /* how often a lock is taken by its holder, and how many wait */
        SPINS_MAX = 1000,
        KIND_SHARED = 128, /* of pthread_mutex_t */
        WRITE_LOCKED = 3,  /* PTHREAD_RWLOCK_WRPHASE | PTHREAD_RWLOCK_WRLOCKED */
        READERS_MAX = COUNT_MAX << 3,
};
#define ELF_MAGIC  0x464c457fU /* ELFMAG, little-endian */
#define FUTEX_USED 2U          /* PTHREAD_RWLOCK_FUTEX_USED */

static struct {
        int32_t *owner[LOCKS_MAX];
        uint16_t holder[LOCKS_MAX];
        unsigned n;
} found;

struct search {
        const struct lock_holder *holders;
        unsigned n;
        bool is_last_byte[256]; /* of an id */
        const struct mapping *list;
        long n_mappings, pagemap;
        uint64_t recent[RECENT]; /* pages: many addresses on a stack are near each other */
        unsigned n_objects;
};

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

static bool is_readable(const void *lock, uint64_t size)
{
        const uint64_t from = (uintptr_t)lock;

        return page_is_readable(from) && page_is_readable(from + size - sizeof(uint64_t));
}

/* Both locks have the holder's id in the first half of 8 bytes. */
static void check(int32_t *owner, unsigned holder)
{
        const void *mutex = (char *)owner - offsetof(struct __pthread_mutex_s, __owner),
                   *rwlock = (char *)owner - offsetof(struct __pthread_rwlock_arch_t, __cur_writer);

        if (found.n < LOCKS_MAX &&
            ((is_readable(mutex, sizeof(struct __pthread_mutex_s)) && is_mutex(mutex)) ||
             (is_readable(rwlock, sizeof(struct __pthread_rwlock_arch_t)) && is_rwlock(rwlock)))) {
                found.owner[found.n] = owner;
                found.holder[found.n++] = (uint16_t)holder;
        }
}

static void search_page(const struct search *s, uint64_t page)
{
        const uint64_t *words = (const uint64_t *)(uintptr_t)page;

        for (unsigned at = 0; at < MAPPING_PAGE / sizeof(*words); at++) {
                /* Behind the id is 0 or 1, __nusers or __shared. */
                const int32_t id = (int32_t)words[at];
                if (words[at] >> 33 != 0 || id == 0 || !s->is_last_byte[(uint8_t)id])
                        continue;
                for (unsigned i = 0; i < s->n; i++) {
                        if (s->holders[i].id == id)
                                check((int32_t *)&words[at], i);
                }
        }
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

/* The mapping that contains this address, if locks with owners can be there, else NULL. */
static const struct mapping *mapping_of(const struct search *s, uint64_t at)
{
        const uint32_t both = PROT_READ | PROT_WRITE;
        const struct mapping *m = mapping_at(s->list, s->n_mappings, at);

        return m && !m->is_shared && (m->prot & both) == both ? m : NULL;
}

/* Whole pages. One that this process has not written contains no lock that it holds. */
static void search(const struct search *s, uint64_t page, uint64_t end)
{
        uint64_t entries[ENTRIES];

        while (page < end) {
                const uint64_t n = lesser((end - page + MAPPING_PAGE - 1) / MAPPING_PAGE, ENTRIES);
                if (pagemap_read(s->pagemap, MAPPING_PAGE, page, n, entries) < 0)
                        return;
                for (uint64_t i = 0; i < n; i++, page += MAPPING_PAGE) {
                        if (page_is_own(entries[i]) && mapping_of(s, page))
                                search_page(s, page);
                }
        }
}

/* The page of an address that a holder has, and the one behind it. */
static void search_object(struct search *s, uint64_t object)
{
        const uint64_t page = object & ~(uint64_t)(MAPPING_PAGE - 1);
        uint64_t *recent = &s->recent[page / MAPPING_PAGE % RECENT];

        if (*recent == page || s->n_objects == OBJECTS_MAX || !mapping_of(s, page))
                return;
        *recent = page;
        s->n_objects++;
        search(s, page, page + 2 * MAPPING_PAGE);
}

static void search_objects(struct search *s, const greg_t *registers)
{
        const uint64_t start = (uint64_t)registers[REG_RSP] & ~UINT64_C(7);
        const struct mapping *stack = mapping_of(s, start);

        for (unsigned i = 0; i < REG_RIP; i++)
                search_object(s, (uint64_t)registers[i]);
        const uint64_t end = stack ? lesser(stack->end, start + STACK_MAX) : start;
        for (uint64_t at = start; at < end; at += sizeof(uint64_t))
                search_object(s, *(const uint64_t *)(uintptr_t)at);
}

/* m: the first mapping of a file. Returns where the variables of the library end that it is, or 0. Behind them the kernel may have put other memory into the
 * same mapping. */
static uint64_t end_of_library(const struct mapping *m)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)(uintptr_t)m->start;
        uint64_t first = UINT64_MAX, end = 0;

        if (!(m->prot & PROT_READ) || !page_is_readable(m->start) ||
            *(const uint32_t *)head->e_ident != ELF_MAGIC || head->e_phoff > MAPPING_PAGE ||
            head->e_phoff + head->e_phnum * sizeof(Elf64_Phdr) > MAPPING_PAGE)
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
                if (is_file && m->offset == 0)
                        end = end_of_library(m);
                if (mapping_of(s, m->start) && (is_file || m->kind == MAPPING_ANONYMOUS))
                        search(s, m->start, is_file ? m->end : lesser(m->end, end));
        }
}

void lock_owners_find(const struct lock_holder *holders, unsigned n)
{
        struct mapping *list = (struct mapping *)(uintptr_t)SCRATCH_START;
        struct search s = {.holders = holders, .n = n, .list = list};

        found.n = 0;
        if (scratch_map(SCRATCH_SIZE) < 0)
                return;
        s.n_mappings = mappings_read(list, SCRATCH_SIZE);
        s.pagemap = pagemap_open();
        for (unsigned i = 0; i < n; i++)
                s.is_last_byte[(uint8_t)holders[i].id] = true;
        for (unsigned i = 0; i < n; i++)
                search_objects(&s, holders[i].registers);
        search_static(&s);
        raw_call(SYS_close, s.pagemap, 0, 0, 0, 0, 0);
        scratch_unmap(SCRATCH_SIZE);
}

void lock_owners_renew(unsigned holder, int32_t id)
{
        for (unsigned i = 0; i < found.n; i++) {
                if (found.holder[i] == holder)
                        *found.owner[i] = id;
        }
}
