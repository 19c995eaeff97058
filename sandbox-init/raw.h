/*
 * System calls without libc: they return the kernel's value, negative errno on failure, and do not
 * use errno. For code that several threads run, or that runs in an interpreter with another libc.
 */
#pragma once

#include <dirent.h>
#include <linux/time_types.h>
#include <signal.h>
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

/* time: may be NULL. set: of a command that ends with _BITSET. */
static inline long raw_futex(const void *word, long command, uint32_t value,
                             const struct __kernel_timespec *time, uint32_t set)
{
        return raw_call(SYS_futex, raw_pointer(word), command, value, raw_pointer(time), 0, set);
}

/* 0 if there is no such clock. */
static inline int64_t raw_clock_ns(long clock)
{
        struct __kernel_timespec t = {0};

        raw_call(SYS_clock_gettime, clock, raw_pointer(&t), 0, 0, 0, 0);
        return t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t raw_clock_us(long clock)
{
        return raw_clock_ns(clock) / 1000;
}

static inline void raw_sleep(long nanoseconds)
{
        const struct __kernel_timespec time = {.tv_nsec = nanoseconds};

        raw_call(SYS_ppoll, 0, 0, raw_pointer(&time), 0, 0, 0);
}

/* The address from which a libc counts what belongs to the thread. */
static inline uintptr_t raw_thread_pointer(void)
{
        uintptr_t at;

#if defined(__x86_64__)
        __asm__("mov %%fs:0, %0" : "=r"(at));
#else
        __asm__("mrs %0, tpidr_el0" : "=r"(at));
#endif
        return at;
}

/*
 * Calls visit() with the names of a directory until it returns another value than 0, and returns that. buffer: aligned to 8 bytes, larger than an
 * entry, unused by visit(). Returns 0 at the end, or negative errno.
 */
static inline long raw_each_name(int directory, char *buffer, long size,
                                 int (*visit)(void *data, int directory, const char *name),
                                 void *data)
{
        long n;

        while ((n = raw_call(SYS_getdents64, directory, raw_pointer(buffer), size, 0, 0, 0)) > 0) {
                for (long at = 0; at < n;) {
                        const struct dirent64 *entry = (const void *)(buffer + at);
                        const char *name = entry->d_name;
                        at += entry->d_reclen;
                        if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])))
                                continue;
                        const int r = visit(data, directory, name);
                        if (r != 0)
                                return r;
                }
        }
        return n;
}

/* The kernel's set of signals: bit n-1 is signal n. */
typedef uint64_t raw_signals;

/* The kernel's struct sigaction. */
struct raw_action {
        void (*handler)(int number, siginfo_t *info, void *context);
        uint64_t flags;
        void (*restorer)(void);
        raw_signals mask;
};

/* action, before: may be NULL. */
static inline long raw_signal_action(int number, const struct raw_action *action,
                                     struct raw_action *before)
{
        return raw_call(SYS_rt_sigaction, number, raw_pointer(action), raw_pointer(before),
                        sizeof(raw_signals), 0, 0);
}

static inline int raw_signal_mask(int how, const raw_signals *set, raw_signals *before)
{
        return (int)raw_call(SYS_rt_sigprocmask, how, raw_pointer(set), raw_pointer(before),
                             sizeof(*set), 0, 0);
}

/*
 * clone or clone3 with CLONE_VM and CLONE_VFORK, whose child calls fn on the caller's stack, as with
 * vfork(): the caller sleeps until the child execs or ends. The child's frames are below the caller's
 * and below the red zone, the 128 bytes that a function of x86-64 may use below its stack pointer. If
 * fn returns, which it does only in a process with a copy of the memory, this returns 0 there.
 *
 * a and b: the arguments of clone3, or flags and 0 for clone, which then keeps the stack pointer. With the end of another stack in
 * place of 0, CLONE_VFORK is not needed, and fn must not return.
 */
static inline long raw_clone_call(long number, long a, long b, void (*fn)(void *data), void *data)
{
#if defined(__x86_64__)
        long r = number;
        register void (*fn_register)(void *) __asm__("r8") = fn;
        register void *data_register __asm__("r9") = data;

        __asm__ volatile(
                "syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tmov %%rsp, %%r12\n\tsub $128, %%rsp\n\tand $-16, %%rsp\n\tmov %%r9, %%rdi\n\tcall *%%r8\n\tmov %%r12, %%rsp\n\txor %%eax, %%eax\n\t1:"
                : "+a"(r), "+D"(a), "+S"(b), "+r"(fn_register), "+r"(data_register)
                :
                : "rcx", "rdx", "r10", "r11", "r12", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
                  "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                  "xmm15", "memory", "cc");
        return r;
#elif defined(__aarch64__)
        register long r __asm__("x0") = a;
        register long second __asm__("x1") = b;
        register long number_register __asm__("x8") = number;
        register void (*fn_register)(void *) __asm__("x10") = fn;
        register void *data_register __asm__("x11") = data;

        __asm__ volatile("svc #0\n\tcbnz x0, 1f\n\tmov x0, x11\n\tblr x10\n\tmov x0, #0\n\t1:"
                         : "+r"(r), "+r"(second), "+r"(number_register), "+r"(fn_register),
                           "+r"(data_register)
                         :
                         : "x2", "x3", "x4", "x5", "x6", "x7", "x9", "x12", "x13", "x14", "x15",
                           "x16", "x17", "x18", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6",
                           "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
                           "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
                           "v28", "v29", "v30", "v31", "memory", "cc");
        return r;
#else
#error "clone on a shared stack is written for x86_64 and aarch64 only"
#endif
}
