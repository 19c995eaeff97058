/*
 * Page tables that forks of the template inherit.
 *
 * fork() copies the page tables of a private mapping of a file only if the process has written to a page of it. So one byte of each is
 * written, with the value that it has.
 */
#include "sandbox-init/worker/memory/inherit.h"

#include <sys/mman.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/memory/mappings.h"

#define LIST_SIZE (MAPPINGS_MAX * sizeof(struct mapping))

static long protect(const struct mapping *m, uint32_t prot)
{
        return raw_call(SYS_mprotect, (long)m->start, (long)(m->end - m->start), prot, 0, 0, 0);
}

static void write_one_byte(const struct mapping *m)
{
        volatile uint8_t *byte = (volatile uint8_t *)(uintptr_t)m->start;

        /* The code of this function may be in it. */
        if (protect(m, m->prot | PROT_WRITE) < 0)
                return;
        *byte = *byte;
        protect(m, m->prot);
}

static bool is_private_file(const struct mapping *m)
{
        return m->kind == MAPPING_FILE && !m->is_shared && (m->prot & PROT_READ) &&
               !(m->prot & PROT_WRITE);
}

static bool holds(const struct mapping *m, const void *address)
{
        return m->start <= (uintptr_t)address && m->end > (uintptr_t)address;
}

/* The name of a libc, of glibc or musl, in a path. */
static bool is_libc(const struct mapping *m)
{
        static const char *const names[] = {"/libc.", "/libc-", "/ld-musl-"};

        for (const char *c = m->path; *c; c++) {
                for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                        size_t n = 0;
                        while (names[i][n] && c[n] == names[i][n])
                                n++;
                        if (!names[i][n])
                                return true;
                }
        }
        return false;
}

/* Whether each worker runs code of the mapping's file. Each further page costs each fork time. */
static bool is_needed(const struct mapping *list, long n, const struct mapping *m,
                      const void *python)
{
        for (long i = 0; i < n; i++) {
                if ((list[i].prot & PROT_EXEC) && list[i].inode == m->inode &&
                    list[i].maps_device == m->maps_device)
                        if (holds(&list[i], python) || is_libc(&list[i]))
                                return true;
        }
        return false;
}

void inherit_text(const void *python)
{
        struct mapping *list = (struct mapping *)(uintptr_t)SCRATCH_START;
        const void *own = (const void *)(uintptr_t)&inherit_text;

        if (scratch_map(LIST_SIZE) < 0)
                return;
        long n = mappings_read(list, LIST_SIZE);
        for (long i = 0; i < n; i++) {
                /* Of Cloister's own file the code only: beside it are its Python sources. */
                if (is_private_file(&list[i]) &&
                    (holds(&list[i], own) || is_needed(list, n, &list[i], python)))
                        write_one_byte(&list[i]);
        }
        scratch_unmap(LIST_SIZE);
}
