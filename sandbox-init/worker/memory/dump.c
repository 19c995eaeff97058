/*
 * The memory of this process, written to a pipe (mappings.h says what may be used here).
 *
 * Branches map long runs of pages privately from the memfd in which the dump arrives. A private mapping of a file differs from
 * anonymous memory: MADV_DONTNEED brings back the file's bytes instead of zeros, and mremap() that enlarges it adds bytes of
 * the file. jemalloc, among others, relies on zeros. So only memory is mapped whose owner does neither: the heap that
 * brk() makes, the pools in which CPython keeps small objects (it frees whole arenas of them by munmap()), and the large blocks for
 * which glibc's malloc() calls mmap(). Such a block begins with a page that
 * has its size. That page is not mapped, so that the block is two mappings: then mremap() cannot enlarge it,
 * and realloc() copies it instead.
 */
#include "sandbox-init/worker/memory/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "sandbox-init/raw.h"

/* ---- saving and resuming registers ---- */

#define FUNCTION(name) ".globl " name "\n.hidden " name "\n.type " name ",%function\n" name ":\n"

#if defined(__x86_64__)

/* With the control words of SSE and x87, which a callee preserves too. */
__asm__(".text\n" FUNCTION(
        "cloister_context_save") "mov (%rsp), %rax\n\tlea 8(%rsp), %rcx\n\tmov %rbx, 0(%rdi)\n\tmov %rbp, 8(%rdi)\n\t"
                                 "mov %r12, 16(%rdi)\n\tmov %r13, 24(%rdi)\n\tmov %r14, 32(%rdi)\n\tmov %r15, 40(%rdi)\n\t"
                                 "mov %rcx, 48(%rdi)\n\tmov %rax, 56(%rdi)\n\tstmxcsr 64(%rdi)\n\tfnstcw 68(%rdi)\n\t"
                                 "xor %eax, %eax\n\tret\n" FUNCTION(
                                         "cloister_context_resume") "mov 0(%rdi), %rbx\n\tmov 8(%rdi), %rbp\n\tmov 16(%rdi), %r12\n\tmov 24(%rdi), %r13\n\t"
                                                                    "mov 32(%rdi), %r14\n\tmov 40(%rdi), %r15\n\tmov 48(%rdi), %rsp\n\tldmxcsr 64(%rdi)\n\t"
                                                                    "fldcw 68(%rdi)\n\tmov $1, %eax\n\tjmp *56(%rdi)\n" FUNCTION(
                                                                            "cloister_context_enter") "mov %rdi, %rsp\n\tand $-16, %rsp\n\txor %ebp, %ebp\n\tmov %rdx, %rdi\n\tcall *%rsi\n\thlt\n");

#elif defined(__aarch64__)

__asm__(".text\n" FUNCTION(
        "cloister_context_save") "stp x19, x20, [x0, #0]\n\tstp x21, x22, [x0, #16]\n\tstp x23, x24, [x0, #32]\n\t"
                                 "stp x25, x26, [x0, #48]\n\tstp x27, x28, [x0, #64]\n\tstp x29, x30, [x0, #80]\n\t"
                                 "mov x1, sp\n\tmrs x2, fpcr\n\tstp x1, x2, [x0, #96]\n\tstp d8, d9, [x0, #112]\n\t"
                                 "stp d10, d11, [x0, #128]\n\tstp d12, d13, [x0, #144]\n\tstp d14, d15, [x0, #160]\n\t"
                                 "mov w0, #0\n\tret\n" FUNCTION(
                                         "cloister_context_resume") "ldp x19, x20, [x0, #0]\n\tldp x21, x22, [x0, #16]\n\tldp x23, x24, [x0, #32]\n\t"
                                                                    "ldp x25, x26, [x0, #48]\n\tldp x27, x28, [x0, #64]\n\tldp x29, x30, [x0, #80]\n\t"
                                                                    "ldp x1, x2, [x0, #96]\n\tmov sp, x1\n\tmsr fpcr, x2\n\tldp d8, d9, [x0, #112]\n\t"
                                                                    "ldp d10, d11, [x0, #128]\n\tldp d12, d13, [x0, #144]\n\tldp d14, d15, [x0, #160]\n\t"
                                                                    "mov w0, #1\n\tret\n" FUNCTION(
                                                                            "cloister_context_enter") "mov sp, x0\n\tmov x29, xzr\n\tmov x30, xzr\n\tmov x0, x2\n\tblr x1\n\tbrk #0\n");

#endif

#ifndef ST_RDONLY
#define ST_RDONLY 1
#endif

enum {
        ENTRIES = 512,
        MAPPED_PAGES_MIN = 16, /* of a run that is mapped: fewer are read faster */
        MAPPED_RUNS_MAX = 4096,
        CHUNK_IS_MMAPPED =
                2, /* malloc/malloc.c of glibc: IS_MMAPPED; the other two of the low bits are 0 */
        CHUNK_FLAGS = 7,
        POOL_ALIGNMENT = 16, /* of objects: obmalloc.c of CPython, whose sizes are its multiples */
        POOL_CLASSES = 32,
};

/* struct pool_header of obmalloc.c, the same from CPython 3.9 to 3.14. */
struct pool {
        uint32_t used, padding;
        uint64_t free_block, next, previous;
        uint32_t arena, size_class, next_offset, last_offset;
};

struct scratch {
        struct mapping list[MAPPINGS_MAX];
        uint64_t entries[ENTRIES];
        uint8_t zeros[MAPPING_PAGE];
};

static const uint64_t scratch_size = (sizeof(struct scratch) + MAPPING_PAGE - 1) &
                                     ~(uint64_t)(MAPPING_PAGE - 1);

/* ---- what is to be done with a mapping ---- */

/* Whether the path leads to the file that is mapped, on a file system that cannot be written to. Others
 * than the sandbox's own directories are the same in each sandbox of the template. */
static bool is_in_image(struct mapping *m)
{
        struct statfs fs;
        struct stat st;

        if (m->is_cut || m->path[0] != '/')
                return false;
        long fd = raw_call(SYS_openat, AT_FDCWD, raw_pointer(m->path), O_PATH | O_CLOEXEC, 0, 0, 0);
        if (fd < 0)
                return false;
        bool is = raw_call(SYS_fstat, fd, raw_pointer(&st), 0, 0, 0, 0) == 0 &&
                  raw_call(SYS_fstatfs, fd, raw_pointer(&fs), 0, 0, 0, 0) == 0 &&
                  st.st_ino == m->inode && S_ISREG(st.st_mode) && (fs.f_flags & ST_RDONLY);
        raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
        if (is)
                m->device = st.st_dev;
        return is;
}

/* Returns 1: all of its pages are needed, 0: those that were written to, negative errno: it cannot be
 * copied. A private mapping of another file becomes anonymous memory. */
static long classify(struct mapping *m)
{
        if (m->kind != MAPPING_FILE)
                return 0;
        if (m->maps_device != 0 && mapping_starts_with(m, "/memfd:cloister-") &&
            mapping_ends_with(m, " (deleted)") && !m->is_shared) {
                m->kind = MAPPING_PROGRAM;
                return 0;
        }
        bool in_image = is_in_image(m);
        if (m->is_shared && (!in_image || m->prot & PROT_WRITE))
                return -EBUSY;
        if (in_image)
                return 0;
        m->kind = MAPPING_ANONYMOUS;
        return 1;
}

/* ---- pages ---- */

struct writer {
        long fd, pagemap;
        uint64_t page;       /* bytes of one of the kernel's */
        uint64_t written;    /* bytes of the dump */
        struct dump_run run; /* not written yet */
        uint64_t n_mapped;   /* runs that may be mapped */
        struct scratch *scratch;
        uint64_t heap_start, heap_end;
        bool may_be_mapped; /* pages of the present mapping */
        uint64_t
                readable_end; /* of it and those that follow it without a gap and have the same properties */
        uint64_t block_end; /* of a block of malloc(), or a pool */
};

static long put(struct writer *w, const void *from, uint64_t n)
{
        w->written += n;
        return whole_write(w->fd, from, n);
}

static long write_run(struct writer *w)
{
        struct dump_run run = w->run;

        w->run.pages = 0;
        if (run.pages == 0)
                return 0;
        run.may_be_mapped &= run.pages >= MAPPED_PAGES_MIN && w->n_mapped < MAPPED_RUNS_MAX;
        if (run.may_be_mapped) {
                w->n_mapped++;
                run.skip = (uint32_t)(-(w->written + sizeof(run)) & (w->page - 1));
        }
        long r = put(w, &run, sizeof(run));
        for (uint64_t left = run.skip; left > 0 && r >= 0;) {
                uint64_t n = left < MAPPING_PAGE ? left : MAPPING_PAGE;
                r = put(w, w->scratch->zeros, n);
                left -= n;
        }
        return r < 0 ? r : put(w, (const void *)(uintptr_t)run.start, run.pages * MAPPING_PAGE);
}

static long add_page(struct writer *w, uint64_t at, bool may_be_mapped)
{
        const uint64_t units = w->page / MAPPING_PAGE;

        if (w->run.pages > 0 && w->run.start + w->run.pages * MAPPING_PAGE == at &&
            w->run.may_be_mapped == may_be_mapped) {
                w->run.pages += units;
                return 0;
        }
        long r = write_run(w);
        w->run = (struct dump_run){at, units, 0, may_be_mapped};
        return r;
}

/* If a block for which malloc() has called mmap() begins with this page, notes its end. */
static void find_chunk(struct writer *w, uint64_t page)
{
        const volatile uint64_t *head = (const uint64_t *)(uintptr_t)page;
        uint64_t size = head[1] & ~(uint64_t)CHUNK_FLAGS;

        if (head[0] == 0 && (head[1] & CHUNK_FLAGS) == CHUNK_IS_MMAPPED &&
            (size & (w->page - 1)) == 0 && size <= w->readable_end - page)
                w->block_end = page + size;
}

/* The size of the pool of small objects that begins here, or 0. All members of its header have to fit each other. */
static uint64_t pool_size(uint64_t at)
{
        const volatile struct pool *p = (const struct pool *)(uintptr_t)at;
        const uint64_t unit = ((uint64_t)p->size_class + 1) * POOL_ALIGNMENT,
                       size = p->last_offset + unit, room = size - sizeof(*p),
                       free_block = p->free_block;

        if (p->size_class >= POOL_CLASSES || (size != 4 * MAPPING_PAGE && size != MAPPING_PAGE) ||
            (at & (size - 1)) != 0 || p->padding != 0 || p->used > room / unit ||
            p->next_offset < sizeof(*p) || (p->next_offset - sizeof(*p)) % unit != 0 ||
            p->next_offset > size)
                return 0;
        return free_block == 0 || (free_block - at >= sizeof(*p) && free_block - at < size) ? size
                                                                                            : 0;
}

static bool find_pool(struct writer *w, uint64_t page)
{
        uint64_t size = pool_size(page);

        if (size == 0 || w->readable_end - page < size)
                return false;
        w->block_end = page + (size > w->page ? size : w->page);
        return true;
}

/* The page is the process's own. Called in the order of addresses. */
static bool is_mappable(struct writer *w, uint64_t page)
{
        if (!w->may_be_mapped)
                return false;
        if ((page >= w->heap_start && page < w->heap_end) || page < w->block_end)
                return true;
        find_chunk(w, page);
        return find_pool(w, page);
}

static long add_pages(struct writer *w, uint64_t at, uint64_t n, bool all)
{
        for (uint64_t k = 0; k < n; k++) {
                const uint64_t page = at + k * w->page;
                if (!page_is_own(w->scratch->entries[k]) && !(all && page_is_readable(page)))
                        continue;
                long r = add_page(w, page, is_mappable(w, page));
                if (r < 0)
                        return r;
        }
        return 0;
}

static long write_pages(struct writer *w, const struct mapping *m, bool all)
{
        if (!(m->prot & PROT_READ) && raw_call(SYS_mprotect, (long)m->start,
                                               (long)(m->end - m->start), PROT_READ, 0, 0, 0) < 0)
                return 0;
        for (uint64_t at = m->start; at < m->end;) {
                uint64_t n = (m->end - at) / w->page;
                if (n > ENTRIES)
                        n = ENTRIES;
                long r = pagemap_read(w->pagemap, w->page, at, n, w->scratch->entries);
                if (r >= 0)
                        r = add_pages(w, at, n, all);
                if (r < 0)
                        return r;
                at += n * w->page;
        }
        return write_run(w);
}

/* Of a mapping of the list: is anonymous memory that can be written to, and needs no property that a file lacks. */
static bool is_plain(const struct mapping *m)
{
        return m->kind == MAPPING_ANONYMOUS && !m->is_shared && !m->is_special &&
               m->prot == (PROT_READ | PROT_WRITE);
}

static void enter_mapping(struct writer *w, const struct mapping *m, const struct mapping *end)
{
        w->may_be_mapped = is_plain(m);
        w->readable_end = m->end;
        for (const struct mapping *next = m + 1;
             w->may_be_mapped && next < end && next->start == w->readable_end && is_plain(next);
             next++)
                w->readable_end = next->end;
        if (w->heap_start == 0 && mapping_starts_with(m, "[heap]"))
                w->heap_start = m->start;
}

void dump_refuse(long fd, long error)
{
        const struct dump_header header = {.magic = DUMP_MAGIC, .refusal = (uint64_t)-error};

        whole_write(fd, &header, sizeof(header));
}

long dump_write(long fd, struct dump_header *header)
{
        struct scratch *s = (struct scratch *)(uintptr_t)SCRATCH_START;
        uint64_t all[MAPPINGS_MAX / 64];

        long r = scratch_map(scratch_size);
        if (r < 0)
                return r;
        long n = mappings_read_flags(s->list, scratch_size);
        struct writer w = {.fd = fd, .page = mapping_page_size(), .scratch = s};
        w.pagemap = pagemap_open();
        if (n < 0 || w.pagemap < 0)
                return n < 0 ? n : w.pagemap;
        for (long i = 0; i < n; i++) {
                long whole = classify(&s->list[i]);
                if (whole < 0)
                        return whole;
                uint64_t bit = UINT64_C(1) << (i % 64);
                all[i / 64] = whole ? all[i / 64] | bit : all[i / 64] & ~bit;
        }
        header->n_mappings = (uint64_t)n;
        header->brk = (uint64_t)raw_call(SYS_brk, 0, 0, 0, 0, 0, 0);
        w.heap_end = header->brk;
        r = put(&w, header, sizeof(*header));
        if (r >= 0)
                r = put(&w, s->list, (uint64_t)n * sizeof(s->list[0]));
        for (long i = 0; i < n && r >= 0; i++) {
                enter_mapping(&w, &s->list[i], s->list + n);
                if (s->list[i].kind != MAPPING_KERNEL && !s->list[i].is_shared)
                        r = write_pages(&w, &s->list[i], all[i / 64] >> (i % 64) & 1);
        }
        const struct dump_run end = {0};
        return r < 0 ? r : put(&w, &end, sizeof(end));
}
