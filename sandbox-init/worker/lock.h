/* A lock between threads that needs no libc: 0 free, 1 taken, 2 taken and waited for. */
#pragma once

#include <linux/futex.h>
#include <stdint.h>

#include "sandbox-init/raw.h"

struct lock {
        uint32_t state;
};

static inline void lock_take(struct lock *lock)
{
        uint32_t state = 0;

        if (__atomic_compare_exchange_n(&lock->state, &state, 1, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
                return;
        while (__atomic_exchange_n(&lock->state, 2, __ATOMIC_ACQUIRE) != 0)
                raw_call(SYS_futex, raw_pointer(&lock->state), FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

static inline void lock_release(struct lock *lock)
{
        if (__atomic_exchange_n(&lock->state, 0, __ATOMIC_RELEASE) == 2)
                raw_call(SYS_futex, raw_pointer(&lock->state), FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
