/*
 * System calls without libc: they return the kernel's value, negative errno on failure, and do not
 * use errno. For code that several threads run, or that runs in an interpreter with another libc.
 */
#pragma once

#include <stdint.h>
#include <sys/syscall.h>

static inline long raw_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
        long r = number;
        register long r10 __asm__("r10") = d;
        register long r8 __asm__("r8") = e;
        register long r9 __asm__("r9") = f;

        __asm__ volatile("syscall"
                         : "+a"(r)
                         : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
        return r;
#elif defined(__aarch64__)
        register long x8 __asm__("x8") = number;
        register long x0 __asm__("x0") = a;
        register long x1 __asm__("x1") = b;
        register long x2 __asm__("x2") = c;
        register long x3 __asm__("x3") = d;
        register long x4 __asm__("x4") = e;
        register long x5 __asm__("x5") = f;

        __asm__ volatile("svc #0"
                         : "+r"(x0)
                         : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), "r"(x8)
                         : "memory");
        return x0;
#else
#error "system calls are written for x86_64 and aarch64 only"
#endif
}

/* For an argument that is a pointer. */
static inline long raw_pointer(const void *p)
{
        return (long)(uintptr_t)p;
}

/* The kernel's set of signals: bit n-1 is signal n. */
typedef uint64_t raw_signals;

static inline int raw_signal_mask(int how, const raw_signals *set, raw_signals *before)
{
        return (int)raw_call(SYS_rt_sigprocmask, how, raw_pointer(set), raw_pointer(before),
                             sizeof(*set), 0, 0);
}
