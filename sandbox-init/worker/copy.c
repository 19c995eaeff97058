/*
 * A fork of the worker that sleeps until init puts it in the worker's place.
 *
 * Theory of operation. The worker clones a helper that shares its memory (CLONE_VM) and is a child of
 * init (CLONE_PARENT), and sleeps until the helper ends (CLONE_VFORK). The helper calls libc's fork(),
 * which handles libc's locks, and ends; the copy is then an orphan, and so a child of init. wait() of
 * the guest sees neither of them.
 *
 * The helper makes a process group of its own, in which the copy sleeps: a signal that code sends to its
 * own group, as `kill 0` in a shell does, does not reach the copy.
 *
 * All signals stay blocked in the copy until it is the worker. It
 *
 *   1. stops itself, once its parent has ended. init takes it as a copy and continues it;
 *   2. waits for COPY_CLEAR from PID 1, which has killed all processes except init and the copies. The
 *      kernel sets the sender's pid of a signal that was sent with kill(), and lets no process forge an
 *      si_code of SI_USER. The copy of a checkpoint forks a writer meanwhile for each branch (writer-socket.h);
 *   3. drops what others have sent to it, and makes a process group of its own, which tells init that
 *      it is awake: no other process could;
 *   4. waits for COPY_WAKE or COPY_ROLL_BACK, which init sends when the broker has emptied the channel,
 *      and for the second one rolls /workspace back: no other process can change it meanwhile;
 *   5. continues the other copies, takes the channel over, registers for restartable sequences (rseq), because the kernel drops that
 *      with CLONE_VM, and returns to Python. glibc's fork() has set the cached thread id.
 */
#include "sandbox-init/worker/copy.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "rpc/sandbox-messages.h"
#include "sandbox-init/raw.h"
#include "sandbox-init/worker/channel.h"
#include "sandbox-init/worker/thread-id.h"
#include "sandbox-init/worker/transaction.h"
#include "sandbox-init/worker/writer-socket.h"

enum { POLL_NS = 100000 };

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

static const raw_signals all_signals = ~0ULL;

/* The state of a sleeping copy. */
struct sleeper {
        struct transaction transaction;
        struct writer_socket socket;
        int writes_to;    /* in a writer: the descriptor; else -1 */
        raw_signals mask; /* of the worker */
};

/* Returns in the copy only. The fork() of an interpreter with its own libc sets the errno of that
 * libc: EAGAIN is the most likely cause. */
static void fork_and_end(void *data)
{
        struct copy_fork *made = data;

        made->helper = raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
        raw_call(SYS_setpgid, 0, 0, 0, 0, 0, 0);
        errno = EAGAIN;
        pid_t pid = fork();
        if (pid == 0)
                return;
        made->pid = pid < 0 ? -errno : pid;
        for (;;)
                raw_call(SYS_exit, 0, 0, 0, 0, 0, 0);
}

/* The fork itself: it and the helper are children of the caller's parent. Returns 0 in the fork, a negative errno if
 * there is no helper; else made->pid says what the helper has done. */
static long fork_beside(struct copy_fork *made)
{
        made->pid = -EAGAIN;
        return raw_clone_call(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_PARENT, 0, fork_and_end,
                              made);
}

static long make_writer(void)
{
        struct copy_fork made = {0};

        thread_id_find();
        long r = fork_beside(&made);
        return r <= 0 ? r : made.pid;
}

static void pause_a_moment(void)
{
        struct {
                int64_t seconds, nanoseconds;
        } time = {.nanoseconds = POLL_NS};

        raw_call(SYS_ppoll, 0, 0, raw_pointer(&time), 0, 0, 0);
}

static void stop(void)
{
        raw_call(SYS_kill, raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGSTOP, 0, 0, 0, 0);
}

/* Takes a pending signal of the set, or waits for one. wait: else returns -EAGAIN. */
static long take_signal(raw_signals set, siginfo_t *info, bool wait)
{
        struct {
                int64_t seconds, nanoseconds;
        } now = {0};

        return raw_call(SYS_rt_sigtimedwait, raw_pointer(&set), raw_pointer(info),
                        wait ? 0 : raw_pointer(&now), sizeof(set), 0, 0);
}

/* Waits for either of them and returns it. */
static long wait_for_init(int number, int other)
{
        const raw_signals set = 1ULL << (number - 1) | 1ULL << (other - 1);
        siginfo_t info;

        for (;;) {
                long taken = take_signal(set, &info, true);
                if (taken > 0 && info.si_code == SI_USER && info.si_pid == 1)
                        return taken;
        }
}

/* As wait_for_init() of COPY_CLEAR, but takes only what is pending. */
static bool was_cleared(void)
{
        siginfo_t info;

        while (take_signal(1ULL << (COPY_CLEAR - 1), &info, false) > 0) {
                if (info.si_code == SI_USER && info.si_pid == 1)
                        return true;
        }
        return false;
}

/* Signals that others have sent to the copy are not for the worker, and would hide those of init. */
static void drop_signals(void)
{
        siginfo_t info;
        long r;

        do
                r = take_signal(all_signals, &info, false);
        while (r > 0 || r == -EINTR);
}

/* Without it, glibc keeps the CPU number that the worker had when it was copied. */
static void register_rseq(void)
{
        if (!&__rseq_size || __rseq_size == 0)
                return;
        uintptr_t at = raw_thread_pointer() + (uintptr_t)__rseq_offset;
        long r = raw_call(SYS_rseq, (long)at, RSEQ_SIZE, 0, RSEQ_SIGNATURE, 0, 0);
        if (r < 0 && r != -EBUSY)
                *(volatile uint32_t *)(at + RSEQ_CPU_ID) = RSEQ_CPU_ID_FAILED;
}

/* As in_copy of copy_make(): stops, then sleeps until init has woken it and all others have ended. */
static void sleep_as_copy(void *data, struct copy_fork *made)
{
        struct sleeper *sleeper = data;
        const struct transaction *transaction = &sleeper->transaction;
        const struct writer_socket_hooks hooks = {.is_over = was_cleared,
                                                  .make_writer = make_writer};

        while (raw_call(SYS_getppid, 0, 0, 0, 0, 0, 0) == made->helper)
                pause_a_moment();
        transaction_take(transaction);
        stop();
        if (sleeper->socket.fd < 0)
                wait_for_init(COPY_CLEAR, COPY_CLEAR);
        else if ((sleeper->writes_to = writer_socket_wait(&sleeper->socket, COPY_CLEAR, &hooks)) >=
                 0) {
                /* No signal that code sends to this process runs a handler. */
                sleeper->mask = made->mask;
                made->mask = all_signals;
                return;
        }
        drop_signals();
        raw_call(SYS_setpgid, 0, 0, 0, 0, 0, 0);
        if (wait_for_init(COPY_WAKE, COPY_ROLL_BACK) == COPY_ROLL_BACK)
                transaction_roll_back(transaction);
        transaction_end();
        /* All others are copies, which init has stopped. A checkpoint answers on its writer socket, now that files are restored. */
        raw_call(SYS_kill, -1, SIGCONT, 0, 0, 0, 0);
        drop_signals();
        /* Fails if that group has ended: then it stays in its own. */
        raw_call(SYS_setpgid, 0, made->group, 0, 0, 0, 0);
        register_rseq();
        channel_adopt();
}

PyObject *copy_make(PyObject *has_threads, void (*in_copy)(void *data, struct copy_fork *made),
                    void *data, int *is_copy)
{
        struct copy_fork made = {.group = raw_call(SYS_getpgid, 0, 0, 0, 0, 0, 0)};
        int hooks = py.PyObject_IsTrue(has_threads);

        if (hooks < 0)
                return NULL;
        if (hooks)
                py.PyOS_BeforeFork();
        raw_signal_mask(SIG_SETMASK, &all_signals, &made.mask);
        long r = fork_beside(&made);
        *is_copy = r == 0;
        if (r == 0)
                in_copy(data, &made);
        raw_signal_mask(SIG_SETMASK, &made.mask, NULL);
        if (hooks)
                (r == 0 ? py.PyOS_AfterFork_Child : py.PyOS_AfterFork_Parent)();
        return py.PyLong_FromLong(r < 0 ? r : r == 0 ? 0 : made.pid);
}

PyObject *copy_keep(PyObject *args, int *is_copy)
{
        struct sleeper sleeper = {.socket = {.signals = -1}, .writes_to = -1};
        PyObject *has_threads;
        long long bytes_max;

        if (!py.PyArg_ParseTuple(args, "OLi", &has_threads, &bytes_max, &sleeper.socket.fd))
                return NULL;
        long r = transaction_begin(&sleeper.transaction, bytes_max);
        if (r < 0)
                return py.PyLong_FromLong(r);
        PyObject *pid = copy_make(has_threads, sleep_as_copy, &sleeper, is_copy);
        if (pid && sleeper.writes_to >= 0) {
                py.Py_DecRef(pid);
                return py.Py_BuildValue("(iiK)", sleeper.writes_to, channel_number(),
                                        (unsigned long long)sleeper.mask);
        }
        if (!pid || *is_copy)
                return pid;
        r = (long)py.PyLong_AsLongLong(pid);
        py.Py_DecRef(pid);
        return py.PyLong_FromLong(transaction_await(&sleeper.transaction, r));
}
