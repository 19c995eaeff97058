/*
 * Theory of operation. A fork has one thread; the others are made again in it, and each continues where it was. That is right only if no
 * thread was between two steps which belong together, so a thread is held only while it waits in a system call:
 *
 *   1. The worker reads /proc/self/task/N/syscall of each thread, until it names a call of the list below, and sends the thread a signal.
 *   2. The handler sees by its registers whether the thread was in that call until then, and saves its thread pointer and name. Registers,
 *      mask and alternate stack are in the frame of the signal, on the thread's stack. Then it waits for the worker to let it go.
 *   3. When all are held and no thread has come meanwhile, the worker forks by a plain clone(). libc's fork() would take the stacks of all others
 *      as free memory, and would run the hooks by which libraries end their threads.
 *   4. The worker lets its threads go: each begins its call again. One that waits for a futex without a timeout, as pools do, begins
 *      it inside the handler, where it stays until the call has returned: its next hold needs no signal. All other signals may come
 *      meanwhile, so its clock must tell after the fork that it has not run since it was held.
 *   5. In the copy, once it is the worker, clone() makes each thread, which registers what the kernel needs, and returns from the signal. Its wait
 *      for a futex begins again. Another wait ends with EINTR, once: sets of epoll and eventfds are the same as the original's, which may
 *      have taken an event that this thread would wait for.
 *
 * The signal is one that glibc keeps for itself, SIGSETXID: glibc lets no code block or handle it. Its handler acts only on signals that
 * tgkill() has sent; this one is sent with another code, and all others are passed to glibc's.
 */
#include "sandbox-init/worker/threads.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
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
        HOLD_SIGNAL = 33,       /* SIGSETXID of glibc */
        PATIENCE_NS = 20000000, /* of computing, or of another wait: then a thread cannot be held */
        HOLD_NS = 200000000,    /* for all of them: the processors may be busy */
        BACK_NS = 1500000000,   /* until the copy may have all its threads */
        NAP_NS = 50000,
        INSTRUCTION = 2,     /* bytes of `syscall` */
        CLOCK_OF_THREAD = 6, /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of the kernel */
};

enum slot_state {
        SLOT_FREE,  /* the thread runs, or was not seen to wait */
        SLOT_ASKED, /* the signal was sent */
        SLOT_HELD,
        SLOT_IN_PLACE, /* it waits in the handler */
};

/* A line of /proc/PID/task/TID/syscall: behind the number six arguments, the stack pointer, and the address of the next instruction. */
enum { FIELD_OPERATION = 1, FIELD_UNUSED = 4, FIELD_STACK = 6, FIELD_NEXT = 7, FIELDS = 8 };
struct system_call {
        uint64_t number, fields[FIELDS];
};
#define NO_CALL UINT64_MAX

/* It is one thread's as long as that lives. */
struct slot {
        _Atomic uint32_t state; /* enum slot_state: a futex */
        int32_t id;             /* 0: no thread has the slot */
        ucontext_t *frame;      /* with which it is held */
        ucontext_t *place;      /* while it waits in the handler: its frame there */
        bool is_broken;         /* the signal ended the call with EINTR */
        int64_t ran_ns;         /* its clock when it was held in place; 0: a signal holds it */
        int64_t began_ns;       /* its clock at the begin of this hold */
        int64_t since_ns;       /* when it was seen elsewhere first, without computing since */
        struct system_call call;
        uintptr_t thread_pointer;
        char name[16];
};

static struct {
        struct slot slots[THREADS_MAX];
        unsigned n_held;
        bool is_missing;         /* in a fork */
        bool has_locks;          /* their locks are noted */
        bool in_place;           /* threads may be held where they wait in the handler */
        int32_t pid, id;         /* of the thread that holds the others */
        uintptr_t id_offset;     /* from a thread pointer to libc's word for the id */
        uintptr_t robust_offset; /* to libc's list of robust futexes */
        uint64_t robust_size;
} all;

static struct raw_action next_action; /* glibc's */

/* Only glibc has it. Of musl's threads another word is cleared when they end. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

static bool swap(struct slot *slot, uint32_t from, uint32_t to)
{
        return atomic_compare_exchange_strong(&slot->state, &from, to);
}

static struct slot *find_slot(int32_t id)
{
        for (unsigned i = 0; i < THREADS_MAX; i++) {
                if (all.slots[i].id == id)
                        return &all.slots[i];
        }
        return NULL;
}

/* The next slot whose thread is held; behind NULL the first one. */
static struct slot *next_held(struct slot *slot)
{
        slot = slot ? slot + 1 : all.slots;
        while (slot < all.slots + THREADS_MAX && slot->state != SLOT_HELD)
                slot++;
        return slot < all.slots + THREADS_MAX ? slot : NULL;
}

/* ---- the system call in which a thread waits ---- */

/* The last one: one of them, after the session was frozen. */
static const uint16_t wait_calls[] = {
        SYS_read,       SYS_poll,           SYS_ppoll,     SYS_select,          SYS_pselect6,
        SYS_epoll_wait, SYS_epoll_pwait,    SYS_nanosleep, SYS_clock_nanosleep, SYS_recvfrom,
        SYS_recvmsg,    SYS_accept,         SYS_accept4,   SYS_wait4,           SYS_waitid,
        SYS_pause,      SYS_restart_syscall};

static bool is_wait(const struct system_call *call)
{
        const uint64_t command = call->fields[FIELD_OPERATION] & (uint64_t)FUTEX_CMD_MASK;

        /* Other commands have the id of a thread in the word, or move waiters. */
        if (call->number == SYS_futex)
                return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
        for (unsigned i = 0; i < sizeof(wait_calls) / sizeof(wait_calls[0]); i++) {
                if (call->number == wait_calls[i])
                        return true;
        }
        return false;
}

/*
 * Returns whether the thread waits in a call of the list. number: also NO_CALL, if it computes. tasks: a descriptor of /proc/self/task. A line is
 * "NUMBER 0xA 0xB 0xC 0xD 0xE 0xF 0xSTACK 0xNEXT", "-1 …" or "running".
 */
static bool read_call(long tasks, int32_t id, struct system_call *call)
{
        char path[] = "0000000000/syscall", *at = path + sizeof("0000000000") - 1, line[256];

        for (; id > 0; id /= 10)
                *--at = (char)('0' + id % 10);
        long fd = raw_call(SYS_openat, tasks, raw_pointer(at), O_RDONLY | O_CLOEXEC, 0, 0, 0);
        long got = raw_call(SYS_read, fd, raw_pointer(line), sizeof(line) - 1, 0, 0, 0);
        raw_call(SYS_close, fd, 0, 0, 0, 0, 0);
        line[got > 0 ? got : 0] = '\0';
        const char *next = take_decimal(line, &call->number);
        if (line[0] == 'r')
                call->number = NO_CALL;
        if (next == line)
                return false;
        for (unsigned i = 0; i < FIELDS; i++)
                next = take_hex(next + sizeof(" 0x") - 1, &call->fields[i]);
        return is_wait(call);
}

/* ---- in the thread that is held ---- */

static void wait_while_held(struct slot *slot)
{
        while (slot->state == SLOT_HELD)
                raw_futex(&slot->state, FUTEX_WAIT_PRIVATE, SLOT_HELD, NULL, 0);
}

/* Returns whether the thread was in its call when the signal came. The kernel begins some calls again by itself; others have returned EINTR, and
 * this begins them again. After restart_syscall the kernel has forgotten which one it was. */
static bool was_in_call(struct slot *slot, greg_t *registers)
{
        const greg_t number = (greg_t)slot->call.number,
                     next = (greg_t)slot->call.fields[FIELD_NEXT];

        if (registers[REG_RSP] != (greg_t)slot->call.fields[FIELD_STACK])
                return false;
        slot->is_broken = registers[REG_RIP] == next && registers[REG_RAX] == -EINTR;
        if (slot->is_broken && number != SYS_restart_syscall) {
                registers[REG_RIP] = next - INSTRUCTION;
                registers[REG_RAX] = number;
        }
        return slot->is_broken ||
               (registers[REG_RIP] == next - INSTRUCTION && registers[REG_RAX] == number);
}

/* Ends when the call has returned, with its result in the frame. The argument that a wait does not use tells the worker which call it is. */
static void wait_in_place(struct slot *slot, ucontext_t *frame)
{
        greg_t *registers = frame->uc_mcontext.gregs;
        const raw_signals every = ~0ULL;

        if (!swap(slot, SLOT_FREE, SLOT_IN_PLACE))
                return;
        slot->place = frame;
        raw_signal_mask(SIG_SETMASK, (const raw_signals *)&frame->uc_sigmask, NULL);
        const long r = raw_call(SYS_futex, registers[REG_RDI], registers[REG_RSI],
                                registers[REG_RDX], 0, raw_pointer(slot), registers[REG_R9]);
        raw_signal_mask(SIG_SETMASK, &every, NULL);
        do
                wait_while_held(slot);
        while (!swap(slot, SLOT_IN_PLACE, SLOT_FREE) && slot->state == SLOT_HELD);
        registers[REG_RAX] = r;
        registers[REG_RIP] += INSTRUCTION;
        slot->place = NULL;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
        ucontext_t *frame = context;
        greg_t *registers = frame->uc_mcontext.gregs;

        if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &all) {
                next_action.handler(number, info, context);
                return;
        }
        struct slot *slot = find_slot((int32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
        if (!slot)
                return;
        if (!was_in_call(slot, registers)) {
                swap(slot, SLOT_ASKED, SLOT_FREE);
                return;
        }
        slot->frame = frame;
        slot->thread_pointer = raw_thread_pointer();
        raw_call(SYS_prctl, PR_GET_NAME, raw_pointer(slot->name), 0, 0, 0, 0);
        if (!swap(slot, SLOT_ASKED, SLOT_HELD))
                return;
        wait_while_held(slot);
        if (!slot->place && registers[REG_RAX] == SYS_futex && registers[REG_R10] == 0)
                wait_in_place(slot, frame);
}

/* Returns whether glibc has a handler, as it has since its first thread. */
static bool set_handler(void)
{
        struct raw_action action = next_action;

        raw_signal_action(HOLD_SIGNAL, NULL, &action);
        if (action.handler != on_signal) {
                next_action = action;
                action.handler = on_signal;
                action.flags |= SA_SIGINFO | SA_RESTART | SA_ONSTACK;
                action.mask = ~0ULL;
                raw_signal_action(HOLD_SIGNAL, &action, NULL);
        }
        return gnu_get_libc_version && action.restorer;
}

/* ---- in the thread that holds the others ---- */

/* The time that a thread has run. */
static int64_t time_of(const struct slot *slot)
{
        return raw_clock_ns((int32_t)(~(uint32_t)slot->id << 3 | CLOCK_OF_THREAD));
}

/* Returns the slot of a thread, which may be a new one, or NULL: there is no room. */
static struct slot *slot_of(int32_t id)
{
        struct slot *slot = find_slot(id);

        for (unsigned i = 0; i < THREADS_MAX && !slot; i++) {
                if (raw_call(SYS_tgkill, all.pid, all.slots[i].id, 0, 0, 0, 0) < 0)
                        slot = &all.slots[i];
        }
        if (slot && slot->id != id)
                *slot = (struct slot){.id = id};
        return slot;
}

/* Holds a thread that waits in the handler; one that waits elsewhere gets the signal. Returns false if the thread has computed, or was in no call of the
 * list, for too long. Only its own time counts where the processors are busy. */
static bool hold(struct slot *slot, long tasks)
{
        siginfo_t info = {.si_signo = HOLD_SIGNAL, .si_code = SI_QUEUE};
        struct system_call call;
        const uint32_t state = slot->state;
        const int64_t ran_ns = time_of(slot), now = raw_clock_ns(CLOCK_MONOTONIC);
        const bool waits = read_call(tasks, slot->id, &call);

        if (waits && all.in_place && call.number == SYS_futex &&
            call.fields[FIELD_UNUSED] == (uintptr_t)slot && swap(slot, SLOT_IN_PLACE, SLOT_HELD)) {
                slot->frame = slot->place;
                slot->is_broken = false;
                slot->ran_ns = ran_ns;
                return true;
        }
        if (waits && state != SLOT_ASKED) {
                info.si_value.sival_ptr = &all;
                slot->call = call;
                slot->ran_ns = 0;
                slot->state = SLOT_ASKED;
                return raw_call(SYS_rt_tgsigqueueinfo, all.pid, slot->id, HOLD_SIGNAL,
                                raw_pointer(&info), 0, 0) != -EAGAIN;
        }
        if (slot->began_ns == 0)
                slot->began_ns = ran_ns;
        if (call.number == NO_CALL || slot->since_ns == 0)
                slot->since_ns = call.number == NO_CALL ? 0 : now;
        return ran_ns - slot->began_ns <= PATIENCE_NS &&
               (slot->since_ns == 0 || now - slot->since_ns <= PATIENCE_NS);
}

/* As visit() of raw_each_name(). Returns the id of a thread that cannot be held. *data: becomes that of one that is not held yet. */
static int hold_named(void *data, int tasks, const char *name)
{
        int32_t *free_one = data;
        uint64_t id;

        take_decimal(name, &id);
        if (id == (uint64_t)all.id)
                return 0;
        struct slot *slot = slot_of((int32_t)id);
        if (!slot || (slot->state != SLOT_HELD && !hold(slot, tasks)))
                return (int)id;
        if (slot->state != SLOT_HELD)
                *free_one = slot->id;
        return 0;
}

/* Whether this process has n threads. The directory counts those too that its list did not have. */
static bool has_threads(long tasks, unsigned long n)
{
        struct stat about;

        return raw_call(SYS_fstat, tasks, raw_pointer(&about), 0, 0, 0, 0) == 0 &&
               about.st_nlink == 2 + n;
}

/* When all are held. Returns 0, or the id of a thread that is not libc's. */
static int32_t find_ids(void)
{
        thread_id_find();
        for (struct slot *slot = NULL; (slot = next_held(slot));) {
                if (!thread_id_keep(slot->thread_pointer, slot->id))
                        return slot->id;
        }
        all.id_offset = (uintptr_t)thread_id_offset();
        return all.id_offset != 0 ? 0 : all.id;
}

/* Returns 0 when all are held, else the id of one that cannot be. */
static int32_t hold_all(long tasks)
{
        char names[2048] __attribute__((aligned(8)));
        const int64_t since = raw_clock_ns(CLOCK_MONOTONIC);

        for (;;) {
                int32_t free_one = all.id;
                raw_call(SYS_lseek, tasks, 0, SEEK_SET, 0, 0, 0);
                const long refused = raw_each_name((int)tasks, names, sizeof(names), hold_named,
                                                   &free_one);
                if (refused > 0)
                        return (int32_t)refused;
                all.n_held = 0;
                for (struct slot *slot = NULL; (slot = next_held(slot));)
                        all.n_held++;
                if (has_threads(tasks, all.n_held + 1))
                        return find_ids();
                if (raw_clock_ns(CLOCK_MONOTONIC) - since > HOLD_NS)
                        return free_one;
                raw_sleep(NAP_NS);
        }
}

static void let_go(void)
{
        for (struct slot *slot = all.slots; slot < all.slots + THREADS_MAX; slot++) {
                slot->began_ns = slot->since_ns = 0;
                swap(slot, SLOT_ASKED, SLOT_FREE);
                if (slot->state == SLOT_HELD) {
                        slot->state = slot->place ? SLOT_IN_PLACE : SLOT_FREE;
                        raw_futex(&slot->state, FUTEX_WAKE_PRIVATE, 1, NULL, 0);
                }
        }
        all.n_held = 0;
}

long threads_hold(bool in_place)
{
        int32_t refused = 0;
        uint64_t robust_list = 0;

        all.n_held = 0;
        all.in_place = in_place;
        if (all.is_missing) /* a branch that failed before they were back */
                __builtin_memset(all.slots, 0, sizeof(all.slots));
        all.is_missing = all.has_locks = false;
        all.pid = (int32_t)raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
        all.id = (int32_t)raw_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
        long tasks = raw_call(SYS_openat, AT_FDCWD, raw_pointer("/proc/self/task"),
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
        if (tasks < 0)
                return -all.id;
        if (!has_threads(tasks, 1))
                refused = set_handler() ? hold_all(tasks) : all.id;
        raw_call(SYS_close, tasks, 0, 0, 0, 0, 0);
        if (refused != 0) {
                let_go();
                return -refused;
        }
        raw_call(SYS_get_robust_list, 0, raw_pointer(&robust_list), raw_pointer(&all.robust_size),
                 0, 0, 0);
        all.robust_offset = robust_list - raw_thread_pointer();
        return all.n_held;
}

bool threads_release(void)
{
        bool stood_still = true;

        if (all.n_held == 0)
                return true;
        for (struct slot *slot = NULL; (slot = next_held(slot));)
                stood_still &= slot->ran_ns == 0 || time_of(slot) == slot->ran_ns;
        let_go();
        return stood_still;
}

bool threads_are_missing(void)
{
        return all.is_missing;
}

static void register_robust_list(void)
{
        raw_call(SYS_set_robust_list, (long)(raw_thread_pointer() + all.robust_offset),
                 (long)all.robust_size, 0, 0, 0, 0);
}

long threads_fork(void)
{
        long pid = raw_call(SYS_clone, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0, 0,
                            (long)(raw_thread_pointer() + all.id_offset), 0, 0);

        if (pid == 0) {
                all.is_missing = true;
                register_robust_list();
        }
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
        for (struct slot *slot = NULL; (slot = next_held(slot));)
                holders[n++] = (struct lock_holder){slot->id, slot->frame->uc_mcontext.gregs};
        lock_owners_find(holders, n);
}

/* The first function of a thread that is back, on its stack, where its handler was. Until it has its thread pointer, it has that of the thread that made it. */
static void come_back(void *data)
{
        struct slot *slot = data;
        greg_t *registers = slot->frame->uc_mcontext.gregs;

        raw_call(SYS_arch_prctl, ARCH_SET_FS, (long)slot->thread_pointer, 0, 0, 0, 0);
        raw_call(SYS_set_tid_address, (long)(slot->thread_pointer + all.id_offset), 0, 0, 0, 0, 0);
        register_robust_list();
        rseq_register();
        raw_call(SYS_prctl, PR_SET_NAME, raw_pointer(slot->name), 0, 0, 0, 0);
        if (slot->is_broken && slot->call.number != SYS_futex) {
                registers[REG_RIP] = (greg_t)slot->call.fields[FIELD_NEXT];
                registers[REG_RAX] = -EINTR;
        }
        wait_while_held(slot);
        __asm__ volatile("mov %0, %%rsp\n\tjmp *%1"
                         :
                         : "r"(slot->frame), "r"(next_action.restorer)
                         : "memory");
        __builtin_unreachable();
}

void threads_return(void)
{
        const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                           CLONE_SYSVSEM;
        const int64_t since = raw_clock_ns(CLOCK_MONOTONIC);
        unsigned n = 0;
        long id;

        if (!all.is_missing)
                return;
        for (struct slot *slot = NULL; (slot = next_held(slot)); n++) {
                const long stack = raw_pointer(slot->frame);
                /* limits.pids may have no room until init has reaped what it has killed. */
                while ((id = raw_clone_call(SYS_clone, flags, stack, come_back, slot)) < 0) {
                        if (raw_clock_ns(CLOCK_MONOTONIC) - since > BACK_NS)
                                raw_call(SYS_exit_group, THREADS_EXIT_FAILED, 0, 0, 0, 0, 0);
                        raw_sleep(NAP_NS);
                }
                slot->id = *(int32_t *)(slot->thread_pointer + all.id_offset) = (int32_t)id;
                lock_owners_renew(n, slot->id);
                if (slot->place == slot->frame) /* it has left it */
                        slot->place = NULL;
        }
        all.is_missing = false;
        let_go();
}
