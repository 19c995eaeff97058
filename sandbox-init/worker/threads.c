/*
 * Theory of operation. A copy is a fork, and a fork has one thread. The others are made again in it, one by one, and each
 * continues where it was. That is right only if no thread was between two steps which belong together, so a thread is held only while it waits in
 * a system call:
 *
 *   1. The worker reads /proc/self/task/N/syscall of each thread, until it names a call of the list below.
 *   2. It sends the thread a signal. The handler sees by its registers whether the thread was in that call until then, and saves what a thread
 *      consists of outside its memory: thread pointer, list of robust futexes, name. Registers, mask and alternate stack are in the frame of the
 *      signal, on the thread's stack. Then it waits for the worker to let it go.
 *   3. When all are held and no thread has come meanwhile, the worker forks by a plain clone(). libc's fork() would take the stacks of all others
 *      as free memory, and would run the hooks by which libraries end their threads.
 *   4. The worker lets its threads go, one after the other: each begins its call again. One that waits for a futex without a timeout, as pools do, begins
 *      it inside the handler, where it stays until the call has returned: its next hold needs no signal. The thread and the worker agree by the state of
 *      the slot whether it has left before. All its signals may come meanwhile. So its clock must tell after the fork that it has not run since it was held.
 *   5. In the copy, once it is the worker, clone() makes each thread with its thread pointer, and libc's word for its id gets the new one. The
 *      thread registers what the kernel needs, and returns from the signal. Its wait for a futex begins again. Another wait ends with EINTR, once:
 *      sets of epoll and eventfds are the same as the original's, which may have taken an event that this thread would wait for.
 *
 * The signal is one that glibc keeps for itself, SIGSETXID: glibc lets no code block or handle it. Its handler acts only on signals that
 * tgkill() has sent; this one is sent with another code, and all others are passed to glibc's.
 */
#include "sandbox-init/worker/threads.h"

#include <asm/prctl.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <ucontext.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/lock-owners.h"
#include "sandbox-init/worker/memory/mappings.h"
#include "sandbox-init/worker/rseq.h"
#include "sandbox-init/worker/thread-id.h"

enum {
        HOLD_SIGNAL = 33,     /* SIGSETXID of glibc */
        PATIENCE_US = 20000,  /* of computing, or of another wait, until a thread cannot be held */
        HOLD_US = 200000,     /* for all of them: the processors may be busy */
        BACK_US = 1500000,    /* until the copy may have all its threads */
        ANSWERS_NS = 1000000, /* then those that have not answered are read again */
        NAP_NS = 50000,
        INSTRUCTION = 2, /* bytes of `syscall` */
        NAME_SIZE = 16,
        FRAME_SIZE = 3072,   /* of a signal, with all registers of a processor with AVX-512 */
        CLOCK_OF_THREAD = 6, /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of the kernel */
};

enum slot_state {
        SLOT_FREE,  /* the thread was not seen to wait, or was elsewhere when the signal came */
        SLOT_WAITS, /* it will be asked */
        SLOT_ASKED, /* the signal was sent */
        SLOT_SAVING,
        SLOT_HELD,
        SLOT_IN_PLACE, /* it waits in the handler */
};

/* A line of /proc/PID/task/TID/syscall: behind the number six arguments, the stack pointer, and the address of the next instruction. */
struct system_call {
        uint64_t number, fields[8];
};
enum { FIELD_OPERATION = 1, FIELD_STACK = 6, FIELD_NEXT = 7 };

/* It is one thread's as long as that lives. */
struct slot {
        _Atomic uint32_t state; /* enum slot_state */
        int32_t id;
        ucontext_t *place;   /* while the thread waits in the handler: its frame there */
        int64_t ran_ns;      /* its clock when it was seen there; 0: it was not held there */
        bool is_broken;      /* the signal ended the call with EINTR */
        int64_t since;       /* when it was seen elsewhere first, without computing since */
        int64_t computed_us; /* its clock when it was seen to compute first */
        struct system_call call;
        ucontext_t *frame;
        uintptr_t thread_pointer;
        uint64_t robust_list, robust_size;
        char name[NAME_SIZE];
};

static struct {
        struct slot slots[THREADS_MAX];
        unsigned n;                  /* slots; those without an id are free */
        _Atomic uint32_t generation; /* changes when threads are let go: a futex */
        _Atomic uint32_t n_awaited;  /* asked, or made, and have not answered: a futex */
        unsigned n_held;
        bool is_missing;     /* in a fork */
        bool has_locks;      /* their locks are noted */
        bool in_place;       /* threads may be held where they wait in the handler */
        int32_t id;          /* of the thread that holds the others */
        ptrdiff_t id_offset; /* from a thread pointer to libc's word for the id */
        uint64_t robust_list, robust_size;
} all;

/* The kernel's struct sigaction. */
struct action {
        void (*handler)(int, siginfo_t *, void *);
        uint64_t flags;
        void (*restorer)(void);
        uint64_t mask;
};
#define RESTORER_IS_GIVEN 0x04000000 /* SA_RESTORER */

static struct action next_action; /* glibc's */

/* Only glibc has it. Of musl's threads another word is cleared when they end. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

static bool swap(_Atomic uint32_t *word, uint32_t from, uint32_t to)
{
        return atomic_compare_exchange_strong(word, &from, to);
}

/* One that waits in this generation: others may be held again already. */
static void wake_one(uint32_t generation)
{
        raw_futex(&all.generation, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, 1U << generation % 32);
}

/* Each wakes another one, so that only one at a time is in the way of the thread that held them. */
static void wait_for_next(uint32_t generation)
{
        while (all.generation == generation)
                raw_futex(&all.generation, FUTEX_WAIT_BITSET_PRIVATE, generation, NULL,
                          1U << generation % 32);
        wake_one(generation);
}

static void begin_next(void)
{
        wake_one(all.generation++);
}

/* In a thread. */
static void answer(void)
{
        if (--all.n_awaited == 0)
                raw_futex(&all.n_awaited, FUTEX_WAKE_PRIVATE, 1, NULL, 0);
}

static void wait_for_answers(void)
{
        const struct __kernel_timespec time = {.tv_nsec = ANSWERS_NS};
        uint32_t n;

        while ((n = all.n_awaited) > 0 &&
               raw_futex(&all.n_awaited, FUTEX_WAIT_PRIVATE, n, &time, 0) != -ETIMEDOUT)
                ;
}

/* ---- the system call in which a thread waits ---- */

static bool is_wait(const struct system_call *call)
{
        /* The last one: one of them, after the session was frozen. */
        static const uint16_t waits[] = {SYS_read,           SYS_poll,
                                         SYS_ppoll,          SYS_select,
                                         SYS_pselect6,       SYS_epoll_wait,
                                         SYS_epoll_pwait,    SYS_nanosleep,
                                         SYS_recvfrom,       SYS_clock_nanosleep,
                                         SYS_recvmsg,        SYS_accept,
                                         SYS_accept4,        SYS_wait4,
                                         SYS_waitid,         SYS_pause,
                                         SYS_restart_syscall};
        const uint64_t command = call->fields[FIELD_OPERATION] & (uint64_t)FUTEX_CMD_MASK;

        /* Other commands have the id of a thread in the word, or move waiters. */
        if (call->number == SYS_futex)
                return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
        for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
                if (call->number == waits[i])
                        return true;
        }
        return false;
}

enum doing {
        HAS_ENDED,
        COMPUTES,
        WAITS, /* in a call of the list */
        IS_ELSEWHERE,
};

/* tasks: a descriptor of /proc/self/task. A line is "NUMBER 0xA 0xB 0xC 0xD 0xE 0xF 0xSTACK 0xNEXT", "-1 …" or "running". */
static enum doing read_call(long tasks, int32_t id, struct system_call *call)
{
        char path[] = "0000000000/syscall", *at = path + sizeof("0000000000") - 1, line[256];

        for (; id > 0; id /= 10)
                *--at = (char)('0' + id % 10);
        long fd = raw_call(SYS_openat, tasks, raw_pointer(at), O_RDONLY | O_CLOEXEC, 0, 0, 0);
        if (fd < 0)
                return fd == -ENOENT ? HAS_ENDED : IS_ELSEWHERE;
        long got = raw_call(SYS_read, fd, raw_pointer(line), sizeof(line) - 1, 0, 0, 0);
        raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
        if (got <= 0 || line[0] == 'r')
                return got == -ESRCH ? HAS_ENDED : COMPUTES;
        line[got] = '\0';
        const char *next = take_decimal(line, &call->number);
        for (unsigned i = 0; next > line && i < sizeof(call->fields) / sizeof(call->fields[0]);
             i++) {
                if (next[0] != ' ' || next[1] != '0' || next[2] != 'x')
                        return IS_ELSEWHERE;
                next = take_hex(next + 3, &call->fields[i]);
        }
        return next > line && is_wait(call) ? WAITS : IS_ELSEWHERE;
}

/* ---- in the thread that is held ---- */

/* By these bytes, an unwinder recognizes the frame of a signal. */
__asm__(".text\n.globl cloister_signal_return\n.hidden cloister_signal_return\n.type cloister_signal_return,%function\n"
        "cloister_signal_return:\n\tmov $15, %rax\n\tsyscall\n");
void cloister_signal_return(void);

/* A system call with the registers of a frame. cloister_called_again: the instruction behind it. */
__asm__(".text\n.globl cloister_call_again\n.hidden cloister_call_again, cloister_called_again\n.type cloister_call_again,%function\n"
        "cloister_call_again:\n\t.cfi_startproc\n\tmov %rdi, %r11\n\tmov 64(%r11), %rdi\n\tmov 72(%r11), %rsi\n\tmov 96(%r11), %rdx\n\t"
        "mov 16(%r11), %r10\n\tmov (%r11), %r8\n\tmov 8(%r11), %r9\n\tmov 104(%r11), %rax\n\tsyscall\n"
        ".globl cloister_called_again\ncloister_called_again:\n\tret\n\t.cfi_endproc\n");
long cloister_call_again(const greg_t *registers);
extern const char cloister_called_again[];
_Static_assert(REG_R8 == 0 && REG_R9 == 1 && REG_R10 == 2 && REG_RDI == 8 && REG_RSI == 9 &&
                       REG_RDX == 12 && REG_RAX == 13,
               "the offsets above");

static struct slot *find_slot(int32_t id)
{
        for (unsigned i = 0; i < all.n; i++) {
                if (all.slots[i].id == id)
                        return &all.slots[i];
        }
        return NULL;
}

/* Returns whether the thread was in its call when the signal came. The kernel begins some calls again by itself; others have returned EINTR, and
 * this begins them again. After restart_syscall the kernel has forgotten which one it was. */
static bool was_in_call(struct slot *slot, greg_t *registers)
{
        const struct system_call *call = &slot->call;
        const uint64_t next = (uint64_t)registers[REG_RIP], result = (uint64_t)registers[REG_RAX];

        slot->is_broken = next == call->fields[FIELD_NEXT] && (int64_t)result == -EINTR;
        if ((uint64_t)registers[REG_RSP] != call->fields[FIELD_STACK] ||
            (!slot->is_broken &&
             (next != call->fields[FIELD_NEXT] - INSTRUCTION || result != call->number)))
                return false;
        if (slot->is_broken && call->number != SYS_restart_syscall) {
                registers[REG_RIP] = (greg_t)(call->fields[FIELD_NEXT] - INSTRUCTION);
                registers[REG_RAX] = (greg_t)call->number;
        }
        return true;
}

/* Ends when the call has returned, with its result in the frame. */
static void wait_in_place(struct slot *slot, ucontext_t *frame)
{
        greg_t *registers = frame->uc_mcontext.gregs;
        const raw_signals every = ~0ULL;
        uint32_t state, generation;

        slot->place = frame;
        if (swap(&slot->state, SLOT_FREE, SLOT_IN_PLACE)) {
                raw_signal_mask(SIG_SETMASK, (const raw_signals *)&frame->uc_sigmask, NULL);
                const long r = cloister_call_again(registers);
                raw_signal_mask(SIG_SETMASK, &every, NULL);
                for (;;) {
                        generation = all.generation;
                        state = SLOT_IN_PLACE;
                        if (atomic_compare_exchange_strong(&slot->state, &state, SLOT_FREE) ||
                            state != SLOT_HELD)
                                break;
                        wait_for_next(generation);
                }
                registers[REG_RAX] = r;
                registers[REG_RIP] += INSTRUCTION;
        }
        slot->place = NULL;
}

static void stay(struct slot *slot, ucontext_t *frame)
{
        const greg_t *registers = frame->uc_mcontext.gregs;
        const uint32_t generation = all.generation;

        slot->frame = frame;
        slot->thread_pointer = raw_thread_pointer();
        raw_call(SYS_get_robust_list, 0, raw_pointer(&slot->robust_list),
                 raw_pointer(&slot->robust_size), 0, 0, 0);
        raw_call(SYS_prctl, PR_GET_NAME, raw_pointer(slot->name), 0, 0, 0, 0);
        slot->state = SLOT_HELD;
        answer();
        wait_for_next(generation);
        if (!slot->place && registers[REG_RAX] == SYS_futex && registers[REG_R10] == 0)
                wait_in_place(slot, frame);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
        if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &all) {
                if (next_action.flags & SA_SIGINFO && next_action.handler)
                        next_action.handler(number, info, context);
                return;
        }
        struct slot *slot = find_slot((int32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
        if (!slot || !swap(&slot->state, SLOT_ASKED, SLOT_SAVING))
                return;
        if (was_in_call(slot, ((ucontext_t *)context)->uc_mcontext.gregs)) {
                stay(slot, context);
        } else {
                slot->state = SLOT_FREE;
                answer();
        }
}

static long set_handler(void)
{
        const struct action action = {
                .handler = on_signal,
                .flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | RESTORER_IS_GIVEN,
                .restorer = cloister_signal_return,
                .mask = ~0ULL,
        };
        struct action before = {0};

        long r = raw_call(SYS_rt_sigaction, HOLD_SIGNAL, raw_pointer(&action), raw_pointer(&before),
                          sizeof(action.mask), 0, 0);
        if (r == 0 && before.handler != on_signal)
                next_action = before;
        return r;
}

/* ---- in the thread that holds the others ---- */

/* The kernel writes the frame of the signal below the stack pointer, into pages that the last copy may have too. Each gets its own one now, while all threads
 * wait: when a thread runs that writes there, the kernel would have to interrupt the processors of the other threads. */
static void prepare_stack(uint64_t stack)
{
        const uint64_t mask = ~(uint64_t)(MAPPING_PAGE - 1), start = (stack - FRAME_SIZE) & mask;

        raw_call(SYS_madvise, (long)start, (long)((stack & mask) + MAPPING_PAGE - start),
                 MADV_POPULATE_WRITE, 0, 0, 0);
}

/* Returns whether the signal was sent, or the thread has ended. */
static bool ask(struct slot *slot)
{
        siginfo_t info = {.si_signo = HOLD_SIGNAL, .si_code = SI_QUEUE};

        info.si_value.sival_ptr = &all;
        all.n_awaited++;
        slot->state = SLOT_ASKED;
        long r = raw_call(SYS_rt_tgsigqueueinfo, raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0), slot->id,
                          HOLD_SIGNAL, raw_pointer(&info), 0, 0);
        if (r < 0 && swap(&slot->state, SLOT_ASKED, SLOT_FREE))
                answer();
        return r == 0 || r == -ESRCH;
}

/* Returns a free slot, or one whose thread has ended, or NULL. */
static struct slot *find_room(void)
{
        const long pid = raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);

        if (!find_slot(0) && all.n < THREADS_MAX)
                return &all.slots[all.n++];
        for (unsigned i = 0; i < all.n && !find_slot(0); i++) {
                if (raw_call(SYS_tgkill, pid, all.slots[i].id, 0, 0, 0, 0) == -ESRCH)
                        all.slots[i].id = 0;
        }
        return find_slot(0);
}

/* Makes a slot for a thread that has none. Returns false if there is no room. */
static bool list(int32_t id)
{
        if (find_slot(id))
                return true;
        struct slot *slot = find_room();
        if (!slot)
                return false;
        slot->state = SLOT_FREE;
        slot->id = id;
        slot->place = NULL;
        slot->ran_ns = slot->since = slot->computed_us = 0;
        return true;
}

/* Makes slots of all threads but this one. Returns 0, the id of a thread for which no slot is left,
 * or negative errno. */
static long list_all(long tasks)
{
        char buffer[2048] __attribute__((aligned(8)));
        long got;

        raw_call(SYS_lseek, tasks, 0, SEEK_SET, 0, 0, 0);
        while ((got = raw_call(SYS_getdents64, tasks, raw_pointer(buffer), sizeof(buffer), 0, 0,
                               0)) > 0) {
                for (long at = 0; at < got;) {
                        const struct dirent *entry = (const void *)(buffer + at);
                        uint64_t id;
                        take_decimal(entry->d_name, &id);
                        if (id > 0 && id != (uint64_t)all.id && !list((int32_t)id))
                                return (long)id;
                        at += entry->d_reclen;
                }
        }
        return got;
}

/* The time that a thread has run, or 0: it has ended. */
static int64_t time_of(const struct slot *slot)
{
        return raw_clock_ns((int32_t)(~(uint32_t)slot->id << 3 | CLOCK_OF_THREAD));
}

/* A thread that may wait in the handler. Returns false if it does not, or the kernel has not been asked. */
static bool hold_in_place(struct slot *slot, int64_t ran_ns, const struct system_call *call)
{
        if (call && call->fields[FIELD_NEXT] != (uintptr_t)cloister_called_again)
                return false;
        if (!slot->place || ran_ns == 0 || (!call && ran_ns != slot->ran_ns))
                return false;
        slot->frame = slot->place;
        slot->is_broken = false;
        slot->ran_ns = ran_ns;
        return swap(&slot->state, SLOT_IN_PLACE, SLOT_HELD);
}

/* Returns false if the thread has computed, or was elsewhere, for too long. Only its own time counts where the processors are busy. */
static bool read_slot(long tasks, struct slot *slot, int64_t now)
{
        const bool in_place = all.in_place && slot->state == SLOT_IN_PLACE;
        const int64_t ran_ns = time_of(slot);
        struct system_call call;

        if (in_place && hold_in_place(slot, ran_ns, NULL))
                return true;
        const enum doing doing = read_call(tasks, slot->id, &call);
        if (in_place && doing == WAITS && hold_in_place(slot, ran_ns, &call))
                return true;
        const uint32_t state = slot->state;
        if (doing == HAS_ENDED && state != SLOT_SAVING) {
                if (swap(&slot->state, SLOT_ASKED, SLOT_FREE))
                        answer();
                slot->id = 0;
        }
        if (doing == HAS_ENDED || state == SLOT_SAVING || state == SLOT_HELD)
                return true;
        if (doing == WAITS && state != SLOT_ASKED) {
                slot->call = call;
                slot->ran_ns = 0;
                slot->state = SLOT_WAITS;
                prepare_stack(call.fields[FIELD_STACK]);
                return true;
        }
        if (doing == COMPUTES) {
                const int64_t computed_us = ran_ns / 1000;
                slot->since = 0;
                if (slot->computed_us == 0)
                        slot->computed_us = computed_us;
                return computed_us - slot->computed_us <= PATIENCE_US;
        }
        if (slot->since == 0)
                slot->since = now;
        return now - slot->since <= PATIENCE_US;
}

/* Asks all threads that wait and were not asked. Returns the id of one that cannot be held, or 0. */
static int32_t ask_all(long tasks)
{
        const int64_t now = raw_clock_us(CLOCK_MONOTONIC);

        for (unsigned i = 0; i < all.n; i++) {
                struct slot *slot = &all.slots[i];
                if (slot->id != 0 && slot->state != SLOT_HELD && !read_slot(tasks, slot, now))
                        return slot->id;
        }
        for (unsigned i = 0; i < all.n; i++) {
                if (all.slots[i].state == SLOT_WAITS && !ask(&all.slots[i]))
                        return all.slots[i].id;
        }
        return 0;
}

/* Whether this process has n threads. The directory counts those too that its list did not have. */
static bool has_threads(long tasks, unsigned long n)
{
        struct stat about;

        return raw_call(SYS_fstat, tasks, raw_pointer(&about), 0, 0, 0, 0) == 0 &&
               about.st_nlink == 2 + n;
}

/* Returns the id of a thread that is not held, or 0. */
static int32_t find_free(long tasks)
{
        unsigned long n = 1;

        for (unsigned i = 0; i < all.n; i++) {
                if (all.slots[i].id != 0 && all.slots[i].state != SLOT_HELD)
                        return all.slots[i].id;
                n += all.slots[i].id != 0;
        }
        return has_threads(tasks, n) ? 0 : all.id;
}

/* When all are held. Returns 0, or the id of a thread that is not libc's. */
static int32_t find_ids(void)
{
        int32_t id = 0;

        thread_id_find();
        for (unsigned i = 0; i < all.n; i++) {
                if (all.slots[i].id == 0)
                        continue;
                id = all.slots[i].id;
                if (!thread_id_keep(all.slots[i].thread_pointer, id))
                        return id;
        }
        all.id_offset = thread_id_offset();
        return all.id_offset != 0 ? 0 : id;
}

/* Returns 0 when all are held, else the id of one that cannot be. */
static int32_t hold_all(long tasks)
{
        const int64_t since = raw_clock_us(CLOCK_MONOTONIC);
        int32_t free_one = all.id;

        for (unsigned i = 0; i < all.n; i++)
                all.slots[i].since = all.slots[i].computed_us = 0;
        while (free_one != 0) {
                const long r = list_all(tasks);
                if (r != 0)
                        return r > 0 ? (int32_t)r : all.id;
                const int32_t refused = ask_all(tasks);
                if (refused != 0)
                        return refused;
                wait_for_answers();
                free_one = find_free(tasks);
                if (free_one != 0 && raw_clock_us(CLOCK_MONOTONIC) - since > HOLD_US)
                        return free_one;
                if (free_one != 0)
                        raw_sleep(NAP_NS);
        }
        return find_ids();
}

static void let_go(void)
{
        for (unsigned i = 0; i < all.n; i++) {
                struct slot *slot = &all.slots[i];
                if (swap(&slot->state, SLOT_ASKED, SLOT_FREE))
                        answer();
                while (slot->state == SLOT_SAVING)
                        raw_sleep(NAP_NS);
                if (slot->state == SLOT_HELD)
                        slot->state = slot->place ? SLOT_IN_PLACE : SLOT_FREE;
        }
        all.n_held = 0;
        begin_next();
}

long threads_hold(bool in_place)
{
        all.n_held = 0;
        all.in_place = in_place;
        all.is_missing = all.has_locks = false; /* a branch that failed before they were back */
        all.id = (int32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
        long tasks = raw_call(SYS_openat, AT_FDCWD, raw_pointer("/proc/self/task"),
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
        if (tasks < 0)
                return -all.id;
        int32_t refused = has_threads(tasks, 1) ? 0 : all.id;
        if (refused == 0) { /* in a fork: the threads that had to answer are not in it */
                all.n = 0;
                all.n_awaited = 0;
        }
        if (refused != 0 && gnu_get_libc_version && set_handler() == 0)
                refused = hold_all(tasks);
        raw_call(SYS_close, tasks, 0, 0, 0, 0, 0);
        if (refused != 0) {
                let_go();
                return -refused;
        }
        raw_call(SYS_get_robust_list, 0, raw_pointer(&all.robust_list),
                 raw_pointer(&all.robust_size), 0, 0, 0);
        for (unsigned i = 0; i < all.n; i++)
                all.n_held += all.slots[i].id != 0;
        return all.n_held;
}

bool threads_release(void)
{
        bool stood_still = true;

        if (all.n_held == 0 || all.is_missing)
                return true;
        for (unsigned i = 0; i < all.n; i++) {
                if (all.slots[i].ran_ns != 0 && time_of(&all.slots[i]) != all.slots[i].ran_ns)
                        stood_still = false;
        }
        let_go();
        return stood_still;
}

bool threads_are_missing(void)
{
        return all.is_missing;
}

long threads_fork(void)
{
        const bool was_missing = all.is_missing;

        all.is_missing = true;
        long pid = raw_call(SYS_clone, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0, 0,
                            (long)(raw_thread_pointer() + (uintptr_t)all.id_offset), 0, 0);
        if (pid != 0)
                all.is_missing = was_missing;
        else
                raw_call(SYS_set_robust_list, (long)all.robust_list, (long)all.robust_size, 0, 0, 0,
                         0);
        return pid;
}

/* ---- in the copy ---- */

void threads_note_locks(void)
{
        struct lock_holder holders[THREADS_MAX];
        unsigned n = 0;

        if (!all.is_missing || all.has_locks)
                return;
        all.has_locks = true;
        for (unsigned i = 0; i < all.n; i++) {
                if (all.slots[i].id != 0)
                        holders[n++] = (struct lock_holder){all.slots[i].id,
                                                            all.slots[i].frame->uc_mcontext.gregs};
        }
        lock_owners_find(holders, n);
}

/* The first function of a thread that is back, on its stack, where its handler was. Until it has its thread pointer, it has that of the thread that made it. */
static void come_back(void *data)
{
        const struct slot *slot = data;
        const uint32_t generation = all.generation;
        greg_t *registers = slot->frame->uc_mcontext.gregs;

        raw_call(SYS_arch_prctl, ARCH_SET_FS, (long)slot->thread_pointer, 0, 0, 0, 0);
        int32_t *id = (int32_t *)(slot->thread_pointer + (uintptr_t)all.id_offset);
        *id = (int32_t)raw_call(SYS_set_tid_address, raw_pointer(id), 0, 0, 0, 0, 0);
        raw_call(SYS_set_robust_list, (long)slot->robust_list, (long)slot->robust_size, 0, 0, 0, 0);
        rseq_register();
        raw_call(SYS_prctl, PR_SET_NAME, raw_pointer(slot->name), 0, 0, 0, 0);
        if (slot->is_broken && slot->call.number != SYS_futex) {
                registers[REG_RIP] = (greg_t)slot->call.fields[FIELD_NEXT];
                registers[REG_RAX] = -EINTR;
        }
        const ucontext_t *frame = slot->frame;
        answer();
        wait_for_next(generation);
        __asm__ volatile("mov %0, %%rsp\n\tjmp cloister_signal_return" : : "r"(frame) : "memory");
        __builtin_unreachable();
}

/* limits.pids may have no room until init has reaped what it has killed. */
static int32_t make_thread(struct slot *slot, int64_t since)
{
        const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                           CLONE_SYSVSEM;

        for (;;) {
                long id = raw_clone_call(SYS_clone, flags, raw_pointer(slot->frame), come_back,
                                         slot);
                if (id >= 0)
                        return (int32_t)id;
                if (raw_clock_us(CLOCK_MONOTONIC) - since > BACK_US)
                        raw_call(SYS_exit_group, THREADS_EXIT_FAILED, 0, 0, 0, 0, 0);
                raw_sleep(NAP_NS);
        }
}

void threads_return(void)
{
        const int64_t since = raw_clock_us(CLOCK_MONOTONIC);
        int32_t ids[THREADS_MAX] = {0};
        unsigned n = 0;

        if (!all.is_missing)
                return;
        all.n_awaited = all.n_held;
        for (unsigned i = 0; i < all.n; i++) {
                struct slot *slot = &all.slots[i];
                if (slot->id != 0)
                        slot->id = ids[n++] = make_thread(slot, since);
        }
        while (all.n_awaited > 0)
                wait_for_answers();
        lock_owners_renew(ids);
        all.is_missing = false;
        all.n_held = 0;
        for (unsigned i = 0; i < all.n; i++) {
                struct slot *slot = &all.slots[i];
                if (slot->place == slot->frame) /* it has left it */
                        slot->place = NULL;
                slot->state = SLOT_FREE;
        }
        begin_next();
}
