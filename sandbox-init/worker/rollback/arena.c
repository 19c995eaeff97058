/* Memory that grows. */
#include "sandbox-init/worker/rollback/arena.h"

#include <errno.h>
#include <sys/mman.h>

#include "sandbox-init/raw.h"

enum { STEP = 64 * 1024 };

static int grow(struct arena *a, size_t needed)
{
        size_t size = a->mapped + a->mapped / 4;

        if (size < needed)
                size = needed;
        size = (size + STEP - 1) / STEP * STEP;
        long at = a->base ? raw_call(SYS_mremap, raw_pointer(a->base), (long)a->mapped, (long)size,
                                     MREMAP_MAYMOVE, 0, 0)
                          : raw_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at < 0 && at >= -4095)
                return -ENOMEM;
        a->base = (char *)(uintptr_t)at;
        a->mapped = size;
        return 0;
}

long arena_append(struct arena *a, size_t n)
{
        size_t at = (a->used + 7) & ~(size_t)7;

        if (at + n > a->mapped && grow(a, at + n) < 0)
                return -ENOMEM;
        a->used = at + n;
        return (long)at;
}

void arena_free(struct arena *a)
{
        if (a->base)
                raw_call(SYS_munmap, raw_pointer(a->base), (long)a->mapped, 0, 0, 0, 0);
        *a = (struct arena){0};
}
