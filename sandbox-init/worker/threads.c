/*
 * Theory of operation. A copy is a fork, and a fork has one thread. The others are made again in it, one by one, and each
 * continues where it was. That is right only if no thread was between two steps which belong together, so a thread is held only while it waits in
 * a system call:
 *
 *   1. The worker reads /proc/self/task/N/syscall of each thread, until it names a call of the list below.
 *   2. It sends the thread a signal. The handler sees by its registers whether the thread was in that call until then, and saves what a thread
 *      consists of outside its memory: thread pointer, list of robust futexes, name, and the registers of the handler itself. The other registers,
 *      the mask and the alternate stack are in the frame of the signal, on the thread's stack. Then it waits for the worker to let it go.
 *   3. When all are held and no thread has come meanwhile, the worker forks by a plain clone(). libc's fork() would take the stacks of all others
 *      as free memory, and would run the hooks by which libraries end their threads.
 *   4. The worker lets its threads go: each begins its call again.
 *   5. In the copy, once it is the worker, clone() makes each thread with its thread pointer, and libc's word for its id gets the new one. The
 *      thread registers what the kernel needs, and returns from its handler. Its wait for a futex begins again. Another wait ends with EINTR, once:
 *      sets of epoll and eventfds are the same as the original's, which may have taken an event that this thread would wait for.
 *
 * The signal is one that glibc keeps for itself, SIGSETXID: glibc lets no code block or handle it. Its handler acts only on signals that
 * tgkill() has sent; this one is sent with another code, and all others are passed to glibc's.
 */
#include "sandbox-init/worker/threads.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-init/raw.h"

#if defined(__x86_64__)

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <ucontext.h>

#include "sandbox-init/worker/lock-owners.h"
#include "sandbox-init/worker/memory/dump.h"
#include "sandbox-init/worker/rseq.h"
#include "sandbox-init/worker/thread-id.h"

enum {
        HOLD_SIGNAL = 33, /* SIGSETXID of glibc */
        CALM_US =
                60000, /* until a thread that computes waits: pools spin for some 20 ms before they wait */
        ANSWER_US =
                200000, /* until a thread that waits has run its handler: the processors may be busy */
        BACK_US = 1500000, /* until the copy may have all its threads */
        NAP_NS = 50000,
        INSTRUCTION = 2, /* bytes of `syscall` */
        IDS_MAX = 8,
        NAME_SIZE = 16,
        STACK_SIZE = 1024,
};

enum slot_state {
        SLOT_NEW,
        SLOT_ASKED,  /* the signal was sent */
        SLOT_MISSED, /* the thread was elsewhere when the signal came */
        SLOT_SAVING,
        SLOT_HELD,
        SLOT_BACK, /* it exists in this process, and waits for the others */
};

/* A line of /proc/PID/task/TID/syscall. */
struct system_call {
        long number;
        uint64_t arguments[6], stack, next; /* next: address of the instruction behind it */
};

struct slot {
        uint32_t state; /* enum slot_state */
        int32_t id;
        uint32_t generation;
        bool is_listed;
        int64_t busy_since; /* us; 0: it was not seen to compute */
        struct system_call call;
        uint64_t registers[LOCK_HOLDER_REGISTERS];
        uintptr_t thread_pointer;
        uint64_t robust_list, robust_size;
        char name[NAME_SIZE];
        struct context context;
        uint8_t stack[STACK_SIZE]
                __attribute__((aligned(16))); /* until the thread has its own one */
};

static struct {
        struct slot slots[THREADS_MAX];
        unsigned n;
        uint32_t generation; /* changes when threads are let go: a futex */
        uint32_t gate;       /* a futex: changes when threads that are back may continue */
        uint32_t n_returning;
        bool is_missing; /* in a fork */
        int32_t id;      /* of the thread that holds the others */
        ptrdiff_t id_offset;
        uint64_t robust_list, robust_size;
        long last;
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

static uint32_t load(const uint32_t *word)
{
        return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint32_t *word, uint32_t value)
{
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static bool swap(uint32_t *word, uint32_t from, uint32_t to)
{
        return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL,
                                           __ATOMIC_ACQUIRE);
}

static void futex_wait(const uint32_t *word, uint32_t value)
{
        while (load(word) == value)
                raw_call(SYS_futex, raw_pointer(word), FUTEX_WAIT_PRIVATE, value, 0, 0, 0);
}

static void futex_open(uint32_t *word)
{
        store(word, load(word) + 1);
        raw_call(SYS_futex, raw_pointer(word), FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

static int64_t now_us(void)
{
        struct __kernel_timespec t;

        raw_call(SYS_clock_gettime, CLOCK_MONOTONIC, raw_pointer(&t), 0, 0, 0, 0);
        return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int32_t own_id(void)
{
        return (int32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* ---- the system call in which a thread waits ---- */

static bool is_wait(const struct system_call *call)
{
        switch (call->number) {
        case SYS_futex: {
                /* The others have the id of a thread in the word, or move waiters. */
                uint64_t command = call->arguments[1] & (uint64_t)FUTEX_CMD_MASK;
                return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
        }
        case SYS_read:
        case SYS_poll:
        case SYS_ppoll:
        case SYS_select:
        case SYS_pselect6:
        case SYS_epoll_wait:
        case SYS_epoll_pwait:
        case SYS_nanosleep:
        case SYS_clock_nanosleep:
        case SYS_recvfrom:
        case SYS_recvmsg:
        case SYS_accept:
        case SYS_accept4:
        case SYS_wait4:
        case SYS_waitid:
        case SYS_pause:
        case SYS_restart_syscall: /* one of them, after the session was frozen */
                return true;
        default:
                return false;
        }
}

static const char *skip_spaces(const char *at)
{
        while (*at == ' ')
                at++;
        return at;
}

static const char *parse_hex(const char *at, uint64_t *ret)
{
        uint64_t n = 0;

        at = skip_spaces(at);
        if (at[0] != '0' || at[1] != 'x')
                return NULL;
        for (at += 2;; at++) {
                int digit = *at >= '0' && *at <= '9'   ? *at - '0'
                            : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
                                                       : -1;
                if (digit < 0)
                        break;
                n = n << 4 | (uint64_t)digit;
        }
        *ret = n;
        return at;
}

/* "NUMBER 0xA 0xB 0xC 0xD 0xE 0xF 0xSTACK 0xNEXT"; "running" and "-1 …" are refused. */
static bool parse_call(const char *line, struct system_call *call)
{
        const char *at = line;
        uint64_t *fields[] = {&call->arguments[0], &call->arguments[1], &call->arguments[2],
                              &call->arguments[3], &call->arguments[4], &call->arguments[5],
                              &call->stack,        &call->next};

        call->number = 0;
        for (; *at >= '0' && *at <= '9'; at++)
                call->number = call->number * 10 + (*at - '0');
        if (at == line)
                return false;
        for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                at = parse_hex(at, fields[i]);
                if (!at)
                        return false;
        }
        return true;
}

/* Returns whether the thread waits. */
static bool read_call(int32_t id, struct system_call *call)
{
        char path[48] = "/proc/self/task/", digits[12], line[256];
        unsigned n = 0, end = sizeof("/proc/self/task/") - 1;

        for (uint32_t left = (uint32_t)id; left > 0 || n == 0; left /= 10)
                digits[n++] = (char)('0' + left % 10);
        while (n > 0)
                path[end++] = digits[--n];
        static const char name[] = "/syscall";
        for (unsigned i = 0; i < sizeof(name); i++)
                path[end + i] = name[i];
        long fd = raw_call(SYS_openat, AT_FDCWD, raw_pointer(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
        if (fd < 0)
                return false;
        long got = raw_call(SYS_read, fd, raw_pointer(line), sizeof(line) - 1, 0, 0, 0);
        raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
        if (got <= 0)
                return false;
        line[got] = '\0';
        return parse_call(line, call) && is_wait(call);
}

/* ---- in the thread that is held ---- */

__asm__(".text\n.globl cloister_signal_return\n.hidden cloister_signal_return\n.type cloister_signal_return,%function\n"
        "cloister_signal_return:\n\tmov $15, %eax\n\tsyscall\n");
void cloister_signal_return(void);

static struct slot *find_slot(int32_t id)
{
        for (unsigned i = 0; i < all.n; i++) {
                if (all.slots[i].id == id)
                        return &all.slots[i];
        }
        return NULL;
}

/* Returns whether the thread was in that call when the signal came. *is_broken: the call has returned EINTR, and the kernel does not begin it
 * again by itself. */
static bool was_in(const struct system_call *call, const greg_t *registers, bool *is_broken)
{
        const uint64_t next = (uint64_t)registers[REG_RIP], result = (uint64_t)registers[REG_RAX];

        *is_broken = next == call->next && (int64_t)result == -EINTR;
        return (uint64_t)registers[REG_RSP] == call->stack &&
               (*is_broken ||
                (next == call->next - INSTRUCTION && result == (uint64_t)call->number));
}

static void begin_again(const struct system_call *call, greg_t *registers)
{
        if (call->number == SYS_restart_syscall)
                return; /* the kernel has forgotten which one it was */
        registers[REG_RIP] = (greg_t)(call->next - INSTRUCTION);
        registers[REG_RAX] = call->number;
}

static void save(struct slot *slot, const greg_t *registers)
{
        static const uint8_t kept[LOCK_HOLDER_REGISTERS] = {REG_RBX, REG_RBP, REG_R12,
                                                            REG_R13, REG_R14, REG_R15};

        for (unsigned i = 0; i < LOCK_HOLDER_REGISTERS; i++)
                slot->registers[i] = (uint64_t)registers[kept[i]];
        slot->thread_pointer = raw_thread_pointer();
        raw_call(SYS_get_robust_list, 0, raw_pointer(&slot->robust_list),
                 raw_pointer(&slot->robust_size), 0, 0, 0);
        raw_call(SYS_prctl, PR_GET_NAME, raw_pointer(slot->name), 0, 0, 0, 0);
}

static void stay(struct slot *slot, greg_t *registers)
{
        const struct system_call call = slot->call;
        const uint32_t generation = slot->generation;
        bool is_broken;

        if (!was_in(&call, registers, &is_broken)) {
                swap(&slot->state, SLOT_ASKED, SLOT_MISSED);
                return;
        }
        if (!swap(&slot->state, SLOT_ASKED, SLOT_SAVING)) {
                if (is_broken)
                        begin_again(&call, registers);
                return;
        }
        save(slot, registers);
        if (cloister_context_save(&slot->context) == 0) {
                store(&slot->state, SLOT_HELD);
                /* From here on the slot may be another thread's. */
                futex_wait(&all.generation, generation);
                if (is_broken)
                        begin_again(&call, registers);
        } else {
                if (is_broken && call.number == SYS_futex)
                        begin_again(&call, registers);
                __atomic_fetch_sub(&all.n_returning, 1, __ATOMIC_ACQ_REL);
        }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
        if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &all) {
                if (next_action.flags & SA_SIGINFO && next_action.handler)
                        next_action.handler(number, info, context);
                return;
        }
        struct slot *slot = find_slot(own_id());
        if (slot && load(&slot->state) == SLOT_ASKED)
                stay(slot, ((ucontext_t *)context)->uc_mcontext.gregs);
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

static long ask(struct slot *slot)
{
        siginfo_t info = {.si_signo = HOLD_SIGNAL, .si_code = SI_QUEUE};

        info.si_value.sival_ptr = &all;
        slot->generation = all.generation;
        store(&slot->state, SLOT_ASKED);
        long r = raw_call(SYS_rt_tgsigqueueinfo, raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0), slot->id,
                          HOLD_SIGNAL, raw_pointer(&info), 0, 0);
        if (r < 0)
                store(&slot->state, SLOT_MISSED);
        return r == -ESRCH ? 0 : r;
}

struct linux_dirent64 {
        uint64_t inode, offset;
        uint16_t size;
        uint8_t type;
        char name[];
};

static int32_t parse_id(const char *text)
{
        int32_t id = 0;

        for (; *text >= '0' && *text <= '9' && id < INT32_MAX / 10 - 1; text++)
                id = id * 10 + (*text - '0');
        return id;
}

/* Marks the slot of a thread, or makes one. Returns false if there is no room. *is_new: also if it is a new one. */
static bool list(int32_t id, bool *is_new)
{
        struct slot *slot = find_slot(id);

        if (!slot) {
                slot = find_slot(0);
                if (!slot && all.n == THREADS_MAX)
                        return false;
                if (!slot)
                        slot = &all.slots[all.n++];
                store(&slot->state, SLOT_NEW);
                slot->id = id;
                slot->busy_since = 0;
                *is_new = true;
        }
        slot->is_listed = true;
        return true;
}

/* Makes slots of all threads but this one, and forgets those that have ended. Returns 0, the id of a thread for which no slot is left,
 * or negative errno. */
static long list_all(bool *is_new)
{
        char buffer[2048] __attribute__((aligned(8)));
        long got = 0, r = 0;

        for (unsigned i = 0; i < all.n; i++)
                all.slots[i].is_listed = false;
        long fd = raw_call(SYS_openat, AT_FDCWD, raw_pointer("/proc/self/task"),
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
        if (fd < 0)
                return fd;
        while (r == 0 && (got = raw_call(SYS_getdents64, fd, raw_pointer(buffer), sizeof(buffer), 0,
                                         0, 0)) > 0) {
                for (long at = 0; at < got && r == 0;) {
                        const struct linux_dirent64 *entry = (const void *)(buffer + at);
                        const int32_t id = parse_id(entry->name);
                        if (id > 0 && id != all.id && !list(id, is_new))
                                r = id;
                        at += entry->size;
                }
        }
        raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
        return r != 0 ? r : got;
}

/* Slots stay where they are: a handler may run. */
static void forget_ended(void)
{
        for (unsigned i = 0; i < all.n; i++) {
                struct slot *slot = &all.slots[i];
                if (slot->is_listed || load(&slot->state) == SLOT_HELD)
                        continue;
                swap(&slot->state, SLOT_ASKED, SLOT_MISSED);
                if (load(&slot->state) == SLOT_NEW || load(&slot->state) == SLOT_MISSED)
                        slot->id = 0;
        }
}

static unsigned count(void)
{
        unsigned n = 0;

        for (unsigned i = 0; i < all.n; i++)
                n += all.slots[i].id != 0;
        return n;
}

/* Returns false if the thread has not waited for too long. */
static bool ask_if_it_waits(struct slot *slot, int64_t now)
{
        if (read_call(slot->id, &slot->call) && ask(slot) >= 0)
                slot->busy_since = 0;
        else if (slot->busy_since == 0)
                slot->busy_since = now;
        return slot->busy_since == 0 || now - slot->busy_since <= CALM_US;
}

/* Asks all threads that wait and were not asked. Returns 0 if all are held, the id of one that is not, or the negative id of one that
 * cannot be. */
static int32_t ask_all(int64_t since)
{
        const int64_t now = now_us();
        int32_t missing = 0;

        for (unsigned i = 0; i < all.n; i++) {
                struct slot *slot = &all.slots[i];
                const uint32_t state = load(&slot->state);
                if (slot->id == 0 || state == SLOT_HELD)
                        continue;
                missing = slot->id;
                if ((state == SLOT_NEW || state == SLOT_MISSED) && !ask_if_it_waits(slot, now))
                        return -missing;
        }
        return missing != 0 && now - since > ANSWER_US ? -missing : missing;
}

/* The word of libc's struct of a thread that has the id of each. Returns 0 or the id of a thread that lacks it. */
static int32_t find_id_offset(void)
{
        ptrdiff_t offsets[IDS_MAX];

        thread_id_find();
        unsigned n = thread_id_offsets(offsets, IDS_MAX);
        for (unsigned i = 0; i < all.n; i++) {
                unsigned kept = 0;
                if (all.slots[i].id == 0)
                        continue;
                for (unsigned k = 0; k < n; k++) {
                        if (*(int32_t *)(all.slots[i].thread_pointer + (uintptr_t)offsets[k]) ==
                            all.slots[i].id)
                                offsets[kept++] = offsets[k];
                }
                n = kept;
                if (n == 0)
                        return all.slots[i].id;
        }
        all.id_offset = offsets[0];
        return n == 1 ? 0 : all.slots[0].id;
}

/* Of /proc/self/task: whether no thread is unknown that the directory did not list. */
static bool are_all_known(void)
{
        struct stat about;

        return raw_call(SYS_stat, raw_pointer("/proc/self/task"), raw_pointer(&about), 0, 0, 0,
                        0) == 0 &&
               about.st_nlink == 2 + 1 + (unsigned long)count();
}

/* Returns 0 when all are held, else the id of one that cannot be. */
static int32_t hold_all(void)
{
        const int64_t since = now_us();

        for (;;) {
                const int32_t missing = ask_all(since);
                if (missing < 0)
                        return -missing;
                if (missing > 0)
                        raw_sleep(NAP_NS);
                bool is_new = false;
                long r = list_all(&is_new);
                forget_ended();
                if (r != 0)
                        return r > 0 ? (int32_t)r : all.slots[0].id;
                if (missing == 0 && !is_new && are_all_known())
                        return find_id_offset();
                if (missing == 0 && now_us() - since > ANSWER_US)
                        return all.slots[0].id;
        }
}

static void let_go(void)
{
        for (unsigned i = 0; i < all.n; i++) {
                struct slot *slot = &all.slots[i];
                swap(&slot->state, SLOT_ASKED, SLOT_MISSED);
                while (load(&slot->state) == SLOT_SAVING)
                        raw_sleep(NAP_NS);
        }
        all.n = 0;
        futex_open(&all.generation);
}

long threads_hold(void)
{
        bool is_new = false;

        all.n = 0;
        all.last = 0;
        all.is_missing = false; /* a branch that failed before they were back */
        all.id = own_id();
        long r = list_all(&is_new);
        if (r == 0 && all.n == 0)
                return 0;
        int32_t missing = r > 0 ? (int32_t)r : all.n > 0 ? all.slots[0].id : all.id;
        if (r == 0 && gnu_get_libc_version && set_handler() == 0)
                missing = hold_all();
        if (missing != 0) {
                let_go();
                all.last = -missing;
                return -1;
        }
        raw_call(SYS_get_robust_list, 0, raw_pointer(&all.robust_list),
                 raw_pointer(&all.robust_size), 0, 0, 0);
        all.last = (long)count();
        return all.last;
}

void threads_release(void)
{
        if (all.n > 0 && !all.is_missing)
                let_go();
}

void threads_hold_none(void)
{
        all.last = 0;
}

long threads_last(void)
{
        return all.last;
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

        if (!all.is_missing)
                return;
        for (unsigned i = 0; i < all.n; i++) {
                const struct slot *slot = &all.slots[i];
                holders[i] = (struct lock_holder){slot->id, slot->call.stack, {0}};
                __builtin_memcpy(holders[i].registers, slot->registers, sizeof(slot->registers));
        }
        lock_owners_find(holders, all.n);
}

/* The first function of a thread that is back, on the stack of its slot. */
static void come_back(void *data)
{
        struct slot *slot = data;
        const uint32_t gate = load(&all.gate);

        raw_call(SYS_set_robust_list, (long)slot->robust_list, (long)slot->robust_size, 0, 0, 0, 0);
        rseq_register();
        raw_call(SYS_prctl, PR_SET_NAME, raw_pointer(slot->name), 0, 0, 0, 0);
        store(&slot->state, SLOT_BACK);
        futex_wait(&all.gate, gate);
        cloister_context_resume(&slot->context);
}

static long clone_thread(struct slot *slot)
{
        const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                           CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                           CLONE_CHILD_CLEARTID;
        const uintptr_t thread_pointer = slot->thread_pointer;
        const uintptr_t id = thread_pointer + (uintptr_t)all.id_offset;
        long r = SYS_clone;
        register uintptr_t r10 __asm__("r10") = id;
        register uintptr_t r8 __asm__("r8") = thread_pointer;
        register void (*r9)(void *) __asm__("r9") = come_back;
        register struct slot *r12 __asm__("r12") = slot;

        __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\t"
                         "mov %%r12, %%rdi\n\tcall *%%r9\n\thlt\n\t1:"
                         : "+a"(r)
                         : "D"(flags), "S"(slot->stack + STACK_SIZE), "d"(id), "r"(r10), "r"(r8),
                           "r"(r9), "r"(r12)
                         : "rcx", "r11", "memory", "cc");
        return r;
}

/* limits.pids may have no room until init has reaped what it has killed. */
static long make_thread(struct slot *slot, int64_t since)
{
        for (;;) {
                long id = clone_thread(slot);
                if (id >= 0 || now_us() - since > BACK_US)
                        return id;
                raw_sleep(NAP_NS);
        }
}

static _Noreturn void fail(void)
{
        for (;;)
                raw_call(SYS_exit_group, THREADS_EXIT_FAILED, 0, 0, 0, 0, 0);
}

void threads_return(void)
{
        const int64_t since = now_us();
        int32_t ids[THREADS_MAX] = {0};

        if (!all.is_missing)
                return;
        store(&all.n_returning, count());
        for (unsigned i = 0; i < all.n; i++) {
                if (all.slots[i].id == 0)
                        continue;
                long id = make_thread(&all.slots[i], since);
                if (id < 0)
                        fail();
                ids[i] = (int32_t)id;
        }
        for (unsigned i = 0; i < all.n; i++) {
                while (all.slots[i].id != 0 && load(&all.slots[i].state) != SLOT_BACK)
                        raw_sleep(NAP_NS);
        }
        lock_owners_renew(ids);
        futex_open(&all.gate);
        /* A slot is in use until its thread has left it. */
        while (load(&all.n_returning) > 0)
                raw_sleep(NAP_NS);
        all.is_missing = false;
        all.n = 0;
        futex_open(&all.generation);
}

#else

long threads_hold(void)
{
        return 0;
}

void threads_release(void)
{
}

void threads_hold_none(void)
{
}

long threads_last(void)
{
        return 0;
}

bool threads_are_missing(void)
{
        return false;
}

long threads_fork(void)
{
        return -ENOSYS;
}

void threads_note_locks(void)
{
}

void threads_return(void)
{
}

#endif
