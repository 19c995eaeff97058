#include "sandbox-init/worker/thread-id.h"

#include <stdbool.h>
#include <sys/mman.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/memory/mappings.h"

enum {
        THREAD_BYTES = 0x900, /* of libc's struct of a thread, if that much is mapped */
        IDS_MAX = 8,
};

static uint32_t *ids[IDS_MAX];
static unsigned n_ids;

static bool is_mapped(uintptr_t page, uint64_t size)
{
        return raw_call(SYS_msync, (long)page, (long)size, MS_ASYNC, 0, 0, 0) == 0;
}

/* Before the fork. From the thread pointer upwards on x86-64, downwards on aarch64 (ELF Handling for Thread-Local Storage,
 * variants II and I). */
void thread_id_find(void)
{
        const uint32_t id = (uint32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
        const uint64_t page = mapping_page_size();
        const uintptr_t thread = raw_thread_pointer(), mask = page - 1;

        n_ids = 0;
        for (uintptr_t i = 0; i < THREAD_BYTES && n_ids < IDS_MAX; i += sizeof(id)) {
#if defined(__aarch64__)
                uintptr_t at = thread - sizeof(id) - i;
#else
                uintptr_t at = thread + i;
#endif
                if ((at & ~mask) != (thread & ~mask) && !is_mapped(at & ~mask, page))
                        return;
                if (*(uint32_t *)at == id)
                        ids[n_ids++] = (uint32_t *)at;
        }
}

/* In the fork: keeps those that libc has changed. */
void thread_id_confirm(void)
{
        const uint32_t id = (uint32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
        unsigned n = 0;

        for (unsigned i = 0; i < n_ids; i++) {
                if (*ids[i] == id)
                        ids[n++] = ids[i];
        }
        n_ids = n;
}

/* In the branch, whose id is another one. */
void thread_id_renew(void)
{
        const uint32_t id = (uint32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0);

        for (unsigned i = 0; i < n_ids; i++)
                *ids[i] = id;
}

unsigned thread_id_offsets(ptrdiff_t *offsets, unsigned max)
{
        const uintptr_t thread = raw_thread_pointer();
        unsigned n = 0;

        for (; n < n_ids && n < max; n++)
                offsets[n] = (ptrdiff_t)((uintptr_t)ids[n] - thread);
        return n;
}
