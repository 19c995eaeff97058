#include "sandbox-init/worker/thread-id.h"

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

bool thread_id_keep(uintptr_t thread_pointer, int32_t id)
{
        const uintptr_t offset = thread_pointer - raw_thread_pointer();
        unsigned n = 0;

        for (unsigned i = 0; i < n_ids; i++) {
                if (*(const int32_t *)((uintptr_t)ids[i] + offset) == id)
                        ids[n++] = ids[i];
        }
        n_ids = n;
        return n > 0;
}

/* In the fork: keeps those that libc has changed. */
void thread_id_confirm(void)
{
        thread_id_keep(raw_thread_pointer(), (int32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
}

/* In the branch, whose id is another one. */
void thread_id_renew(void)
{
        const uint32_t id = (uint32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0);

        for (unsigned i = 0; i < n_ids; i++)
                *ids[i] = id;
}

ptrdiff_t thread_id_offset(void)
{
        return n_ids == 1 ? (ptrdiff_t)((uintptr_t)ids[0] - raw_thread_pointer()) : 0;
}
