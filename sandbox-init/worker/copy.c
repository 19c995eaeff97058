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
 *      si_code of SI_USER. The copy of a checkpoint forks a writer meanwhile for each branch (below);
 *   3. drops what others have sent to it, and makes a process group of its own, which tells init that
 *      it is awake: no other process could;
 *   4. waits for COPY_WAKE or COPY_ROLL_BACK, which init sends when the broker has emptied the channel,
 *      and for the second one rolls /workspace back: no other process can change it meanwhile;
 *   5. continues the other copies, takes the channel over, registers for restartable sequences (rseq), because the kernel drops that
 *      with CLONE_VM, makes the threads again that were held (threads.h), and returns to Python. The fork has set libc's thread id.
 */
#include "sandbox-init/worker/copy.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rpc/sandbox-messages.h"
#include "sandbox-init/raw.h"
#include "sandbox-init/setup/layout.h"
#include "sandbox-init/worker/channel.h"
#include "sandbox-init/worker/memory/dump.h"
#include "sandbox-init/worker/memory/load.h"
#include "sandbox-init/worker/memory/mappings.h"
#include "sandbox-init/worker/rollback/rollback.h"
#include "sandbox-init/worker/rseq.h"
#include "sandbox-init/worker/sqlite-locks.h"
#include "sandbox-init/worker/thread-id.h"
#include "sandbox-init/worker/threads.h"

#pragma weak dlsym

enum {
        WAIT_S = SNAPSHOT_TIME_MS / 1000 + 1,
        POLL_NS = 100000,
        IDLE_NS = 100000000, /* of a copy that is likely to live for a while */
};

/* ---- the files of a transaction ---- */

/*
 * The copy that is made before a cell holds a snapshot of /workspace, and rolls it back when it takes the worker's place.
 * The copy takes the snapshot, and not the worker, so that the memory for it is the copy's, and a lack of
 * memory ends only the copy. It tells the worker through a pipe how that went.
 */
struct transaction {
        int64_t bytes_max; /* of contents; -1: there is none, and all functions do nothing */
        int pipe[2];
};

/* Of the copy. */
static struct snapshot snapshot;
static struct rollback_report report;
static bool has_rolled_back;

/* In the worker, before the fork. Returns 0 or negative errno. */
static long transaction_begin(struct transaction *t, int64_t bytes_max)
{
        *t = (struct transaction){.bytes_max = bytes_max, .pipe = {-1, -1}};
        return bytes_max < 0 ? 0 : raw_call(SYS_pipe2, raw_pointer(t->pipe), O_CLOEXEC, 0, 0, 0, 0);
}

/* In the copy, after the fork. Without a snapshot the process ends. */
static void transaction_take(const struct transaction *t)
{
        if (t->bytes_max < 0)
                return;
        raw_call(SYS_close, t->pipe[0], 0, 0, 0, 0, 0);
        int32_t r = snapshot_take(&snapshot, LAYOUT_WORKSPACE, (uint64_t)t->bytes_max);
        raw_call(SYS_write, t->pipe[1], raw_pointer(&r), sizeof(r), 0, 0, 0);
        raw_call(SYS_close, t->pipe[1], 0, 0, 0, 0, 0);
        if (r < 0)
                raw_call(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}

static long read_result(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct __kernel_timespec left = {.tv_sec = WAIT_S};
        int32_t said = -ENOMEM;
        long n;

        /* The kernel writes into `left` how much of it is left. */
        while ((n = raw_call(SYS_ppoll, raw_pointer(&p), 1, raw_pointer(&left), 0, 0, 0)) == -EINTR)
                ;
        if (n <= 0)
                return n < 0 ? n : -ETIMEDOUT;
        n = raw_call(SYS_read, fd, raw_pointer(&said), sizeof(said), 0, 0, 0);
        return n < 0 ? n : said; /* it has ended without a word: most likely the OOM killer */
}

/* In the worker, after the fork. pid: of the copy, or a negative errno. Returns it if there is a snapshot;
 * else kills the copy and returns the errno of snapshot_take(). */
static long transaction_await(const struct transaction *t, long pid)
{
        if (t->bytes_max < 0)
                return pid;
        raw_call(SYS_close, t->pipe[1], 0, 0, 0, 0, 0);
        if (pid > 0) {
                long r = read_result(t->pipe[0]);
                if (r < 0) {
                        raw_call(SYS_kill, pid, SIGKILL, 0, 0, 0, 0);
                        pid = r;
                }
        }
        raw_call(SYS_close, t->pipe[0], 0, 0, 0, 0, 0);
        return pid;
}

/* When all others have ended. */
static void transaction_roll_back(const struct transaction *t)
{
        if (t->bytes_max < 0)
                return;
        rollback_run(&snapshot, &report);
        has_rolled_back = true;
}

static PyObject *list_of(const struct rollback_names *names)
{
        PyObject *list = py.Py_BuildValue("[]");

        for (uint32_t i = 0; list && i < names->n; i++) {
                const char *name = names->names[i];
                PyObject *bytes = py.PyBytes_FromStringAndSize(name, (Py_ssize_t)strlen(name));
                int r = bytes ? py.PyList_Append(list, bytes) : -1;
                py.Py_DecRef(bytes);
                if (r < 0) {
                        py.Py_DecRef(list);
                        return NULL;
                }
        }
        return list;
}

PyObject *transaction_report(PyObject *self, PyObject *args)
{
        if (!has_rolled_back)
                return py.Py_BuildValue("");
        has_rolled_back = false;
        return py.Py_BuildValue("(IIIINN)", report.changed, report.returned, report.removed,
                                report.failed.total, list_of(&report.named),
                                list_of(&report.failed));
}

static const raw_signals all_signals = ~0ULL;

struct copy_fork {
        volatile long helper, pid; /* pid: or negative errno */
        long group;                /* of the worker */
        raw_signals mask;          /* of the worker before; what the fork has at the end */
        bool is_plain;             /* without libc's fork(): threads are held */
};

/* Returns in the copy only. The fork() of an interpreter with its own libc sets the errno of that
 * libc: EAGAIN is the most likely cause. */
static void fork_and_end(void *data)
{
        struct copy_fork *made = data;

        made->helper = raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
        raw_call(SYS_setpgid, 0, 0, 0, 0, 0, 0);
        errno = EAGAIN;
        long pid = made->is_plain ? threads_fork() : fork();
        if (pid == 0)
                return;
        made->pid = pid < 0 && !made->is_plain ? -errno : pid;
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

static void stop(void)
{
        raw_call(SYS_kill, raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGSTOP, 0, 0, 0, 0);
}

/* Takes a pending signal of the set, or waits for one until that time has passed; then it returns -EAGAIN. NULL: as long as it takes. */
static long take_signal(raw_signals set, siginfo_t *info, const struct __kernel_timespec *time)
{
        return raw_call(SYS_rt_sigtimedwait, raw_pointer(&set), raw_pointer(info),
                        raw_pointer(time), sizeof(set), 0, 0);
}

static const struct __kernel_timespec no_time;

/* Waits for either of them and returns it, or -EAGAIN as take_signal(). */
static long wait_for_init(int number, int other, const struct __kernel_timespec *time)
{
        const raw_signals set = 1ULL << (number - 1) | 1ULL << (other - 1);
        siginfo_t info;

        for (;;) {
                long taken = take_signal(set, &info, time);
                if (taken == -EAGAIN || (taken > 0 && info.si_code == SI_USER && info.si_pid == 1))
                        return taken;
        }
}

/* As wait_for_init() of COPY_CLEAR, but takes only what is pending. */
static bool was_cleared(void)
{
        siginfo_t info;

        while (take_signal(1ULL << (COPY_CLEAR - 1), &info, &no_time) > 0) {
                if (info.si_code == SI_USER && info.si_pid == 1)
                        return true;
        }
        return false;
}

/* ---- the writer socket of a checkpoint ---- */

/*
 * The broker requests on it that the sleeping process writes itself for a branch (docs/branches.md). Only the broker has
 * the other end. The session may run cells meanwhile. The copy waits in ppoll() for the socket and a signalfd. All signals stay blocked, and are
 * taken by rt_sigtimedwait() as in every copy. A signal from init is handled before any request, and ends
 * a writer, so that the copy is alone when it becomes the worker.
 *
 * A request is one byte with a descriptor. The writer is made as a copy is: libc has its thread id,
 * which its dump must contain, and it is a child of init, which reaps it also while this process is stopped:
 * init waits until no process is left but copies.
 */
struct writer_socket {
        int fd;      /* -1: there is none */
        int signals; /* a signalfd: signals from init */
        int writer;  /* a pidfd: a fork that writes; -1: none */
};

static void close_both(struct writer_socket *socket)
{
        if (socket->fd >= 0)
                raw_call(SYS_close, socket->fd, 0, 0, 0, 0, 0);
        if (socket->signals >= 0)
                raw_call(SYS_close, socket->signals, 0, 0, 0, 0, 0);
        socket->fd = socket->signals = -1;
}

/* Returns a descriptor, -EPIPE at the end, -EAGAIN: nothing has come, or its descriptor was lost. */
static int take_request(const struct writer_socket *socket)
{
        char byte;
        int fd;

        long n = channel_receive(socket->fd, &byte, 1, &fd);
        if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
                return -EPIPE;
        return fd >= 0 ? fd : -EAGAIN;
}

static void close_writer(struct writer_socket *socket)
{
        if (socket->writer >= 0)
                raw_call(SYS_close, socket->writer, 0, 0, 0, 0, 0);
        socket->writer = -1;
}

/* init reaps it. */
static bool has_ended(const struct writer_socket *socket, const void *time)
{
        struct pollfd p = {.fd = socket->writer, .events = POLLIN};

        return raw_call(SYS_ppoll, raw_pointer(&p), 1, raw_pointer(time), 0, 0, 0) == 1;
}

static bool has_writer(struct writer_socket *socket)
{
        struct __kernel_timespec now = {0};

        if (socket->writer >= 0 && has_ended(socket, &now))
                close_writer(socket);
        return socket->writer >= 0;
}

static void end_writer(struct writer_socket *socket)
{
        if (socket->writer < 0)
                return;
        raw_call(SYS_pidfd_send_signal, socket->writer, SIGKILL, 0, 0, 0, 0);
        while (!has_ended(socket, NULL))
                ;
        close_writer(socket);
}

static void wait_for_something(const struct writer_socket *socket)
{
        struct pollfd p[] = {
                {.fd = socket->signals, .events = POLLIN},
                {.fd = socket->writer >= 0 ? socket->writer : socket->fd, .events = POLLIN},
        };

        raw_call(SYS_ppoll, raw_pointer(p), 2, 0, 0, 0, 0);
}

/* In place of files (archive.py): why there is no branch. */
static void refuse(int fd, const char *why)
{
        struct __attribute__((packed)) {
                uint64_t device, inode;
                char kind;
                uint16_t length;
                uint32_t mode;
                uint64_t size;
                int64_t time;
                uint64_t number;
        } head = {.kind = 'x', .length = (uint16_t)strlen(why)};

        raw_call(SYS_write, fd, raw_pointer(&head), sizeof(head), 0, 0, 0);
        raw_call(SYS_write, fd, raw_pointer(why), head.length, 0, 0, 0);
}

/* Returns whether this is the writer. Without a pidfd it could not be ended in time. */
static bool fork_writer(struct writer_socket *socket, int to)
{
        struct copy_fork made = {.is_plain = threads_are_missing()};

        thread_id_find();
        long pid = fork_beside(&made);
        if (pid > 0)
                pid = made.pid;
        if (pid == 0)
                return true;
        if (pid > 0)
                socket->writer = (int)raw_call(SYS_pidfd_open, pid, 0, 0, 0, 0, 0);
        if (pid > 0 && socket->writer < 0)
                raw_call(SYS_kill, pid, SIGKILL, 0, 0, 0, 0);
        if (socket->writer < 0)
                refuse(to, "limits.pids allows no more processes");
        return false;
}

/* Returns the descriptor in the writer, else -1. */
static int serve(struct writer_socket *socket)
{
        int to = take_request(socket);

        if (to == -EPIPE) {
                raw_call(SYS_close, socket->fd, 0, 0, 0, 0, 0);
                socket->fd = -1;
        }
        if (to < 0)
                return -1;
        if (fork_writer(socket, to)) {
                close_both(socket);
                return to;
        }
        raw_call(SYS_close, to, 0, 0, 0, 0, 0);
        return -1;
}

/* Until init sends COPY_CLEAR. Forks a writer for each request, one at a time. Returns -1 in the copy, when no writer
 * is left. Returns the descriptor to write to in each writer. The socket is closed in both. */
static int writer_socket_wait(struct writer_socket *socket)
{
        const raw_signals set = 1ULL << (COPY_CLEAR - 1);

        socket->writer = -1;
        socket->signals = (int)raw_call(SYS_signalfd4, -1, raw_pointer(&set), sizeof(set),
                                        SFD_CLOEXEC | SFD_NONBLOCK, 0, 0);
        if (socket->signals < 0)
                close_both(socket);
        while (!was_cleared()) {
                if (socket->fd >= 0 && !has_writer(socket)) {
                        int to = serve(socket);
                        if (to >= 0)
                                return to;
                }
                wait_for_something(socket);
        }
        end_writer(socket);
        close_both(socket);
        return -1;
}

/* ---- the sleep ---- */

/* Signals that others have sent to the copy are not for the worker, and would hide those of init. */
static void drop_signals(void)
{
        siginfo_t info;
        long r;

        do
                r = take_signal(all_signals, &info, &no_time);
        while (r > 0 || r == -EINTR);
}

/* The work for the threads takes some milliseconds. Who waits for the copy need not wait for that, unless the copy is young. */
static void wait_until_cleared(void)
{
        const struct __kernel_timespec idle = {.tv_nsec = IDLE_NS};

        if (threads_are_missing()) {
                if (wait_for_init(COPY_CLEAR, COPY_CLEAR, &idle) > 0)
                        return;
                threads_note_locks();
        }
        wait_for_init(COPY_CLEAR, COPY_CLEAR, NULL);
}

/* The state of a sleeping copy. */
struct sleeper {
        struct transaction transaction;
        struct writer_socket socket;
        int writes_to;    /* in a writer: the descriptor; else -1 */
        raw_signals mask; /* of the worker */
        bool is_mute;     /* it has no writer if its threads are missing */
};

/* As in_copy of copy_make(): stops, then sleeps until init has woken it and all others have ended. */
static void sleep_as_copy(void *data, struct copy_fork *made)
{
        struct sleeper *sleeper = data;
        const struct transaction *transaction = &sleeper->transaction;

        while (raw_call(SYS_getppid, 0, 0, 0, 0, 0, 0) == made->helper)
                raw_sleep(POLL_NS);
        transaction_take(transaction);
        if (sleeper->is_mute && threads_are_missing())
                close_both(&sleeper->socket);
        stop();
        if (sleeper->socket.fd < 0)
                wait_until_cleared();
        else if ((sleeper->writes_to = writer_socket_wait(&sleeper->socket)) >= 0) {
                /* No signal that code sends to this process runs a handler. */
                sleeper->mask = made->mask;
                made->mask = all_signals;
                return;
        }
        drop_signals();
        raw_call(SYS_setpgid, 0, 0, 0, 0, 0, 0);
        /* While the broker empties the channel. */
        threads_note_locks();
        if (wait_for_init(COPY_WAKE, COPY_ROLL_BACK, NULL) == COPY_ROLL_BACK)
                transaction_roll_back(transaction);
        snapshot_free(&snapshot);
        /* All others are copies, which init has stopped. A checkpoint answers on its writer socket, now that files are restored. */
        raw_call(SYS_kill, -1, SIGCONT, 0, 0, 0, 0);
        drop_signals();
        /* Fails if that group has ended: then it stays in its own. */
        raw_call(SYS_setpgid, 0, made->group, 0, 0, 0, 0);
        rseq_register();
        channel_adopt();
        threads_return();
}

/*
 * Whether no other thread has a state in CPython. A thread that waits for CPython's lock requests it from the thread that has it, which then waits until it
 * is taken: where threads are missing, it never is.
 */
static bool python_is_alone(void)
{
        void *(*interpreter)(void) = NULL, *(*first)(void *) = NULL, *(*next)(void *) = NULL;

        if (!dlsym)
                return false;
        *(void **)&interpreter = dlsym(RTLD_DEFAULT, "PyInterpreterState_Main");
        *(void **)&first = dlsym(RTLD_DEFAULT, "PyInterpreterState_ThreadHead");
        *(void **)&next = dlsym(RTLD_DEFAULT, "PyThreadState_Next");
        if (!interpreter || !first || !next)
                return false;
        void *state = first(interpreter());
        return state && !next(state);
}

static long held; /* what threads_hold() has returned for the last copy; 0 without it */

long copy_held(void)
{
        return held;
}

/* How the worker is copied. */
struct copy_way {
        int has_threads; /* of Python: then CPython's own hooks of a fork run, unless all threads are held */
        int may_hold; /* threads, which then come back when the fork is the worker (threads.h) */
        bool runs_python; /* in the fork, before they are back */
        bool can_fail;    /* with EINTR: then there is no copy, and the next try has one */
};

/*
 * Forks. The fork, which is a child of the worker's parent, calls in_copy() with all signals
 * blocked; it becomes the copy when that returns.
 * Returns an int: in the worker the pid of the copy or a negative errno; 0 in the copy. *is_copy: whether
 * this is the copy.
 */
static PyObject *copy_make(const struct copy_way *way,
                           void (*in_copy)(void *data, struct copy_fork *made), void *data,
                           int *is_copy)
{
        struct copy_fork made = {.group = raw_call(SYS_getpgid, 0, 0, 0, 0, 0, 0)};

        held = 0;
        raw_signal_mask(SIG_SETMASK, &all_signals, &made.mask);
        if (way->may_hold && (!way->runs_python || python_is_alone()))
                held = threads_hold(way->can_fail);
        made.is_plain = held > 0;
        const bool hooks = way->has_threads && !made.is_plain;
        if (hooks) {
                raw_signal_mask(SIG_SETMASK, &made.mask, NULL);
                py.PyOS_BeforeFork();
                raw_signal_mask(SIG_SETMASK, &all_signals, &made.mask);
        }
        long r = fork_beside(&made);
        *is_copy = r == 0;
        if (r == 0)
                in_copy(data, &made);
        else if (!threads_release() && made.pid > 0) {
                raw_call(SYS_kill, made.pid, SIGKILL, 0, 0, 0, 0);
                made.pid = -EINTR;
        }
        raw_signal_mask(SIG_SETMASK, &made.mask, NULL);
        if (hooks)
                (r == 0 ? py.PyOS_AfterFork_Child : py.PyOS_AfterFork_Parent)();
        return py.PyLong_FromLong(r < 0 ? r : r == 0 ? 0 : made.pid);
}

PyObject *copy_keep(PyObject *args, int *is_copy)
{
        struct sleeper sleeper = {.socket = {.signals = -1}, .writes_to = -1};
        struct copy_way way = {.can_fail = true};
        long long bytes_max;

        if (!py.PyArg_ParseTuple(args, "iiLi", &way.has_threads, &way.may_hold, &bytes_max,
                                 &sleeper.socket.fd))
                return NULL;
        /* A writer runs Python: without one, a copy of all threads can be made, but no branch of it. */
        sleeper.is_mute = way.has_threads && way.may_hold && sleeper.socket.fd >= 0;
        long r = transaction_begin(&sleeper.transaction, bytes_max);
        if (r < 0)
                return py.PyLong_FromLong(r);
        way.runs_python = sleeper.socket.fd >= 0 && !sleeper.is_mute;
        PyObject *pid = copy_make(&way, sleep_as_copy, &sleeper, is_copy);
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

/* ---- branches ---- */

/*
 * The state of a process outside its memory, for its branch.
 *
 * The kernel has some addresses of the thread, which libc has registered: where it keeps its thread id, the list
 * of robust futexes, the area of rseq. Both processes are forks of one template by the same libc, so that
 * these addresses are the same. The bytes there are another matter:
 *
 *   - the thread id, which glibc and musl keep, is that of the fork that wrote the dump;
 *   - the area of rseq has the number of a processor, which the kernel writes when it schedules the process
 *     after a sleep.
 */

enum {
        SIGNALS = 64,
        NAP_NS = 50000,
};

static struct {
        uint8_t template_id[16];
        bool has_id;
        struct context context;
        struct dump_header header;
        int64_t number;
        struct raw_action actions[SIGNALS + 1];
        stack_t stack;
} branch;

void branch_prepare(void)
{
        branch.has_id = raw_call(SYS_getrandom, raw_pointer(branch.template_id),
                                 sizeof(branch.template_id), 0, 0, 0,
                                 0) == sizeof(branch.template_id);
}

/* ---- signals ---- */

static void save_signals(void)
{
        for (int i = 1; i <= SIGNALS; i++)
                raw_signal_action(i, NULL, &branch.actions[i]);
        raw_call(SYS_sigaltstack, 0, raw_pointer(&branch.stack), 0, 0, 0, 0);
}

static void restore_signals(void)
{
        for (int i = 1; i <= SIGNALS; i++)
                raw_signal_action(i, &branch.actions[i], NULL);
        raw_call(SYS_sigaltstack, raw_pointer(&branch.stack), 0, 0, 0, 0, 0);
}

/* ---- both ways ---- */

static void resume(void)
{
        load_done();
        thread_id_renew();
        restore_signals();
        raw_sleep(NAP_NS);
        channel_branch();
        sqlite_locks_forget();
}

static void write_dump(void *data, struct copy_fork *made)
{
        const int fd = *(int *)data;
        if (cloister_context_save(&branch.context) != 0) {
                resume();
                return;
        }
        thread_id_confirm();
        threads_note_locks();
        save_signals();
        branch.header = (struct dump_header){
                .magic = DUMP_MAGIC,
                .thread_pointer = raw_thread_pointer(),
                .channel = (uint64_t)channel_number(),
                .context = (uintptr_t)&branch.context,
                .number = (uintptr_t)&branch.number,
        };
        __builtin_memcpy(branch.header.template_id, branch.template_id, sizeof(branch.template_id));
        long r = dump_write(fd, &branch.header);
        if (r < 0 && branch.header.n_mappings == 0)
                dump_refuse(fd, r);
        for (;;)
                raw_call(SYS_exit_group, r < 0 ? -r : 0, 0, 0, 0, 0, 0);
}

PyObject *branch_make(int has_threads, int fd, int *is_copy, int64_t *number)
{
        const struct copy_way way = {has_threads, !has_threads, true, false};

        thread_id_find();
        PyObject *r = copy_make(&way, write_dump, &fd, is_copy);
        *number = branch.number;
        return r;
}

PyObject *branch_write(PyObject *self, PyObject *args)
{
        unsigned long long mask;
        int fd;
        if (!py.PyArg_ParseTuple(args, "iK", &fd, &mask))
                return NULL;
        write_dump(&fd, NULL);
        const raw_signals signals = mask;
        raw_signal_mask(SIG_SETMASK, &signals, NULL);
        return py.PyLong_FromLong((long)branch.number);
}

PyObject *branch_load(PyObject *self, PyObject *args)
{
        long long number;
        unsigned long long at;
        long r = -ESTALE;
        int fd;
        if (!py.PyArg_ParseTuple(args, "iKL", &fd, &at, &number))
                return NULL;
        const struct load_source from = {fd, at};
        if (branch.has_id)
                r = load_replace(&from, branch.template_id, (uint64_t)channel_number(), number);
        return py.PyLong_FromLong(-r);
}
