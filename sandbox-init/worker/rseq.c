#include "sandbox-init/worker/rseq.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-init/raw.h"

/* Of the kernel's struct rseq: its size at the registration, whatever has been added since, and what
 * glibc and the kernel agree on as a signature of handlers. */
enum {
        RSEQ_SIZE = 32,
        RSEQ_CPU_ID = 4, /* offset of a uint32_t */
#if defined(__aarch64__)
        RSEQ_SIGNATURE = 0xd428bc00,
#else
        RSEQ_SIGNATURE = 0x53053053,
#endif
};
#define RSEQ_CPU_ID_FAILED ((uint32_t)-2)

/* Where glibc has the struct, relative to the thread pointer. No glibc before 2.35 has these, and no
 * other libc. The size is 0 where glibc has not registered it. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

void rseq_register(void)
{
        if (!&__rseq_size || __rseq_size == 0)
                return;
        uintptr_t at = raw_thread_pointer() + (uintptr_t)__rseq_offset;
        long r = raw_call(SYS_rseq, (long)at, RSEQ_SIZE, 0, RSEQ_SIGNATURE, 0, 0);
        if (r < 0 && r != -EBUSY)
                *(volatile uint32_t *)(at + RSEQ_CPU_ID) = RSEQ_CPU_ID_FAILED;
}
