/*
 * PID 1 of a sandbox: reaps processes, interrupts the worker on request, reports its wait status, keeps
 * a list of sleeping copies, makes one of them the worker when the worker has ended (docs/cells.md),
 * and finds the files that have changed.
 *
 * It is static, has an empty environment, and is non-dumpable and filtered, and has disabled
 * speculation, before it releases the worker: code in the sandbox can neither read nor control it. When PID
 * 1 ends, the kernel kills all processes of the namespace. It ends when the worker ends and there is no copy, and when the monitor
 * closes the control pipe.
 */
#include "sandbox-init/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/filter-load.h"
#include "rpc/sandbox-messages.h"
#include "sandbox-init/init/calls.h"
#include "sandbox-init/init/changes.h"
#include "sandbox-init/init/hold.h"
#include "sandbox-init/init/rest.h"

enum {
        FIRST_WORKER = 2, /* the first process forked in a pid namespace. A pid is not reused before
                             init has reaped it */
        TICK_US = 200,
        TICKS_MAX = 10000, /* 2 s: until only copies must be left */
        STOP_TICKS_MAX =
                2500, /* 0.5 s: until the worker must have stopped; else it is killed anyway */
};

enum state {
        RUNNING,
        STOPPING, /* the broker has chosen a copy. All are stopped; init kills all except worker
                     and copies, then the worker. If the copy ends before, all continue */
        CLEARING, /* the worker has ended; all others are stopped, and init kills all except copies */
        CLEARED, /* only copies are left, and the chosen one has said that it is awake */
};

static struct {
        enum state state;
        pid_t worker;
        struct copy {
                pid_t pid;
                bool is_aside;     /* takes the worker's place only if the broker chooses it */
        } copies[INIT_COPIES_MAX]; /* the newest last */
        size_t n_copies;
        pid_t chosen;        /* one of them: takes the worker's place; 0: the newest will */
        pid_t gone;          /* one that was chosen and has ended after the worker; 0: none */
        int32_t wait_status; /* of the worker that has ended */
        int ticks;           /* in STOPPING and CLEARING */
        pid_t last;          /* the newest process before the last list was read; 0: unknown */
} init = {.worker = FIRST_WORKER};

static void on_child(int number)
{
        (void)number; /* only has to interrupt ppoll() */
}

/* SIGCHLD is only unblocked in ppoll(), so that none is missed between waitpid() and ppoll(). */
static int watch_children(sigset_t *while_waiting)
{
        struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
        sigset_t blocked;

        sigemptyset(&blocked);
        sigaddset(&blocked, SIGCHLD);
        sigemptyset(while_waiting);
        if (sigaction(SIGCHLD, &action, NULL) < 0 || sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
                return -errno;
        return 0;
}

/* The number that the kernel has given to the newest process or thread, also if that has ended. 0: unknown. */
static pid_t last_pid(void)
{
        char text[16];

        if (lseek(INIT_LAST_PID_FD, 0, SEEK_SET) < 0)
                return 0;
        ssize_t n = read(INIT_LAST_PID_FD, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        return (pid_t)strtol(text, NULL, 10);
}

static void report(enum init_report_kind kind, int32_t value, pid_t pid)
{
        const struct init_report message = {
                .kind = kind, .value = value, .pid = pid, .last = last_pid()};

        fd_write_all(INIT_REPORT_FD, &message, sizeof(message));
}

/* Whether it is a child of ours and stopped now. The stop is not consumed: it is the present state. A
 * process to which SIGKILL was sent does not count as stopped, also if it has not ended yet. */
static bool is_stopped_child(pid_t pid)
{
        siginfo_t info = {};

        return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == pid;
}

/* ---- the copies ---- */

/* Its place in the list, or n_copies. */
static size_t find_copy(pid_t pid)
{
        size_t i = 0;

        while (i < init.n_copies && init.copies[i].pid != pid)
                i++;
        return i;
}

static bool is_copy(pid_t pid)
{
        return find_copy(pid) < init.n_copies;
}

static void forget_copy(pid_t pid)
{
        size_t i = find_copy(pid);

        if (i == init.n_copies)
                return;
        init.n_copies--;
        memmove(&init.copies[i], &init.copies[i + 1], (init.n_copies - i) * sizeof(init.copies[0]));
}

static void drop_copy(pid_t pid)
{
        if (!is_copy(pid))
                return;
        kill(pid, SIGKILL);
        forget_copy(pid);
}

/* The file belongs to the session's id. Landlock denies it to code. A process that is not dumpable keeps the value that it has. */
static void set_score(pid_t pid, const char *score)
{
        char path[32];

        snprintf(path, sizeof(path), "%d/oom_score_adj", (int)pid);
        int fd = openat(INIT_PROC_FD, path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return;
        fd_write_all(fd, score, strlen(score));
        close(fd);
}

/* A pid that the worker has named: it may be any number. */
static bool may_be_copy(pid_t pid)
{
        return init.state == RUNNING && pid > 1 && pid != init.worker && !is_copy(pid) &&
               is_stopped_child(pid);
}

static void keep(const struct init_request *request)
{
        if (!may_be_copy(request->pid)) {
                report(INIT_REFUSED, 0, request->pid);
                return;
        }
        for (size_t i = 0; i < INIT_INSTEAD_MAX; i++)
                drop_copy(request->instead[i]);
        if (init.n_copies == INIT_COPIES_MAX) {
                kill(request->pid, SIGKILL);
                report(INIT_REFUSED, 0, request->pid);
                return;
        }
        init.copies[init.n_copies++] = (struct copy){request->pid,
                                                     request->verb == INIT_KEEP_ASIDE};
        set_score(request->pid, OOM_SCORE_COPY);
        kill(request->pid, SIGCONT);
        report(INIT_KEPT, 0, request->pid);
}

static void drop(pid_t pid)
{
        if (is_copy(pid))
                drop_copy(pid);
        else if (may_be_copy(pid))
                kill(pid, SIGKILL);
}

/* ---- the end of the worker ---- */

/* Again and again, because a signal of the guest that is pending already hides COPY_CLEAR, and a process
 * that was in kill() as it was stopped may have stopped the copy. */
static void ask_to_clear(void)
{
        kill(init.chosen, COPY_CLEAR);
        kill(init.chosen, SIGCONT);
}

/* The newest is last. Those that are aside and were not chosen end with all others. */
static void choose_copy(void)
{
        size_t n = 0;

        if (!is_copy(init.chosen))
                init.chosen = 0;
        for (size_t i = 0; i < init.n_copies; i++) {
                if (!init.copies[i].is_aside || init.copies[i].pid == init.chosen)
                        init.copies[n++] = init.copies[i];
        }
        init.n_copies = n;
        if (n > 0 && init.chosen == 0)
                init.chosen = init.copies[n - 1].pid;
}

/* Returns 1 if init must end. */
static int note_end(int32_t wait_status)
{
        rest_end(false);
        hold_end(false);
        init.wait_status = wait_status;
        choose_copy();
        if (init.n_copies == 0) {
                report(INIT_ENDED, wait_status, 0);
                return 1;
        }
        /* No process, and none that is being forked, runs on after this. */
        kill(-1, SIGSTOP);
        init.state = CLEARING;
        init.ticks = 0;
        init.gone = 0;
        return 0;
}

/* The chosen copy has ended before the worker: continues the worker and all other processes. */
static void continue_all(void)
{
        init.state = RUNNING;
        init.chosen = 0;
        kill(-1, SIGCONT);
}

/* For the broker, GONE of the chosen copy means that the worker runs: it is sent GONE of this copy after
 * CLEARED. Returns 1 if init must end. */
static int choose_again(pid_t gone)
{
        choose_copy();
        if (init.n_copies == 0) {
                report(INIT_ENDED, init.wait_status, 0);
                return 1;
        }
        if (init.gone == 0)
                init.gone = gone;
        else
                report(INIT_GONE, 0, gone);
        return 0;
}

/* Returns 1 if init must end. */
static int note_gone(pid_t pid)
{
        forget_copy(pid);
        if (init.state == CLEARING && pid == init.chosen)
                return choose_again(pid);
        if (init.state == CLEARED && pid == init.chosen) {
                report(INIT_ENDED, init.wait_status, 0);
                return 1;
        }
        report(INIT_GONE, 0, pid);
        if (init.state == STOPPING && pid == init.chosen)
                continue_all();
        return 0;
}

/* Returns 1 if init must end. */
static int reap(void)
{
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
                calls_child_ended(pid, status);
                if (is_copy(pid) && note_gone(pid))
                        return 1;
                if (pid == init.worker && init.state <= STOPPING && note_end(status))
                        return 1;
        }
        return 0;
}

static bool is_spared(pid_t pid)
{
        return pid <= 1 || is_copy(pid) || (init.state == STOPPING && pid == init.worker);
}

static size_t kill_other(pid_t pid, void *data)
{
        if (is_spared(pid))
                return 0;
        kill(pid, SIGKILL);
        return 1;
}

/* Reads a list and kills what is on it. Returns whether none was found. In STOPPING, children of the worker
 * stay as zombies, because it has stopped: there it is enough that no process has been made since before
 * the last list was read, so that all of these have been killed already. */
static bool find_none(void)
{
        pid_t before_last = init.last;

        init.last = last_pid();
        if (rest_each(kill_other, NULL) == 0)
                return true;
        return init.state == STOPPING && before_last != 0 && last_pid() == before_last;
}

/* Kills all processes except the copies, and in STOPPING except the worker. Returns true if none was found, twice:
 * a process that was forked with a lower number while the list was read is missed once, but twice only
 * if all numbers were used up in between. */
static bool end_others(void)
{
        for (int i = 0; i < 2; i++) {
                if (find_none())
                        continue;
                /* One that was in kill() as it was stopped may have continued others. */
                kill(-1, SIGSTOP);
                return false;
        }
        return true;
}

/* Returns true if both have stopped. All signals of the worker to the copy have then been delivered. */
static bool have_stopped(void)
{
        const pid_t both[] = {init.worker, init.chosen};
        bool all = true;

        for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
                if (is_stopped_child(both[i]))
                        continue;
                kill(both[i], SIGSTOP);
                all = false;
        }
        return all;
}

/* The worker ends last, when no process is left that could end the copy. */
static void tick_stopping(void)
{
        if (++init.ticks > STOP_TICKS_MAX || (have_stopped() && end_others() && have_stopped()))
                kill(init.worker, SIGKILL);
}

/* Only the copy itself can make the process group of its number. Returns 1 if init must end. */
static int tick_clearing(void)
{
        if (++init.ticks > TICKS_MAX) {
                report(INIT_ENDED, init.wait_status, 0);
                return 1;
        }
        if (!end_others())
                return 0;
        if (kill(-init.chosen, 0) < 0) {
                ask_to_clear();
                return 0;
        }
        init.state = CLEARED;
        report(INIT_CLEARED, init.wait_status, init.chosen);
        if (init.gone != 0)
                report(INIT_GONE, 0, init.gone);
        return 0;
}

/* Returns 1 if init must end. */
static int tick(void)
{
        if (init.state == STOPPING)
                tick_stopping();
        return init.state == CLEARING && tick_clearing();
}

/* ---- requests ---- */

/* The others are stopped first: a worker that has to share its processors with many of them takes
 * seconds to end. 0: ends the worker, even if there is no copy. */
static void restore(pid_t pid)
{
        if (pid != 0 && (init.state != RUNNING || !is_copy(pid)))
                return;
        rest_end(false);
        hold_end(false);
        init.chosen = pid;
        if (init.n_copies > 0)
                kill(-1, SIGSTOP);
        init.state = pid == 0 ? RUNNING : STOPPING;
        init.ticks = 0;
        init.last = 0;
        if (pid == 0)
                kill(init.worker, SIGKILL);
}

static void wake(bool rolls_back)
{
        init.worker = init.chosen;
        init.chosen = 0;
        forget_copy(init.worker);
        init.state = RUNNING;
        set_score(init.worker, OOM_SCORE_WORKER);
        kill(init.worker, rolls_back ? COPY_ROLL_BACK : COPY_WAKE);
}

static void count(bool scans)
{
        if (init.state == RUNNING)
                changes_report(scans);
        report(INIT_COUNTED, 0, 0);
}

static bool is_init_or_copy(pid_t pid)
{
        return pid <= 1 || is_copy(pid);
}

static void sweep(int32_t since)
{
        const struct rest_spared all = {is_init_or_copy, init.worker};

        rest_sweep(&all, since);
        report(INIT_SWEPT, 0, 0);
}

static void tick_rest(void)
{
        const struct rest_spared all = {is_init_or_copy, init.worker};
        size_t n = rest_wait() ? rest_tick(&all, last_pid()) : 0;

        if (n > 0)
                report(INIT_STOPPED, (int32_t)n, 0);
}

static void tell_hold(enum hold_news news)
{
        if (news != HOLD_NOTHING)
                report(news == HOLD_RAN ? INIT_RAN : INIT_HELD,
                       news == HOLD_RAN ? 0 : hold_number(), 0);
}

/* The states in which a request has an effect, by its verb. */
static const struct {
        enum state first, last;
} legal[INIT_VERB_MAX] = {
#define INIT_REQUEST(name, pid, instead, first, last, text) [INIT_##name] = {first, last},
#include "rpc/sandbox-messages.def"
};

static void handle(const struct init_request *request)
{
        bool flag = request->pid == 1;

        if (request->verb >= INIT_VERB_MAX || init.state < legal[request->verb].first ||
            init.state > legal[request->verb].last)
                return;
        if (request->verb == INIT_KEEP || request->verb == INIT_KEEP_ASIDE)
                keep(request);
        else if (request->verb == INIT_DROP)
                drop(request->pid);
        else if (request->verb == INIT_INTERRUPT)
                kill(init.worker, flag ? WORKER_REMIND : SIGINT);
        else if (request->verb == INIT_RESTORE)
                restore(request->pid);
        else if (request->verb == INIT_WAKE)
                wake(flag);
        else if (request->verb == INIT_COUNT)
                count(flag);
        else if (request->verb == INIT_REST && request->pid > 0)
                rest_begin(request->pid, last_pid());
        else if (request->verb == INIT_REST)
                rest_end(true);
        else if (request->verb == INIT_HOLD && request->pid > 0)
                tell_hold(hold_begin(request->pid, last_pid()));
        else if (request->verb == INIT_HOLD)
                hold_end(true);
        else if (request->verb == INIT_SWEEP)
                sweep(request->pid);
}

/* Returns 1 when the monitor has closed the control pipe. */
static int obey(void)
{
        struct init_request request;

        ssize_t n = read(INIT_CONTROL_FD, &request, sizeof(request));
        if (n == 0)
                return 1;
        if (n == sizeof(request))
                handle(&request);
        return 0;
}

/* init runs no loops, so the mitigation costs nothing. It cannot be undone. Returns 0 also if the
 * processor or the kernel does not offer it to a process. */
static int disable_speculation(unsigned long which)
{
        if (prctl(PR_SET_SPECULATION_CTRL, which, PR_SPEC_FORCE_DISABLE, 0, 0) == 0)
                return 0;
        return errno == ENODEV || errno == ENXIO || errno == EPERM ? 0 : -errno;
}

/* The worker sends it before the image's code runs in it. */
static int greet(void)
{
        struct init_hello hello;
        int listener = -1;

        if (fd_read_full(INIT_RELEASE_FD, &hello, sizeof(hello)) != sizeof(hello))
                return -EPROTO;
        if (hello.listener > 0) {
                int worker = (int)syscall(SYS_pidfd_open, FIRST_WORKER, 0);
                listener = worker < 0 ? -1
                                      : (int)syscall(SYS_pidfd_getfd, worker, hello.listener, 0);
                close(worker);
        }
        /* The filter is loaded already: commands would open no files. */
        if (listener < 0 && hello.asks)
                return -EPERM;
        return calls_open(listener, &hello, is_init_or_copy);
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Until something happens, or a time of init's own has come. Returns 1 if init must end. */
static int wait_and_serve(int calls_ms, const sigset_t *while_waiting)
{
        const struct timespec tick_time = {.tv_nsec = TICK_US * 1000},
                              calls_time = {calls_ms / 1000, calls_ms % 1000 * 1000000L},
                              *first = hold_wait() ? hold_wait() : rest_wait();
        /* A call that is answered would run while its process must stand still. */
        struct pollfd list[] = {{.fd = INIT_CONTROL_FD, .events = POLLIN},
                                {.fd = hold_wait() ? -1 : calls_fd(), .events = POLLIN}};
        bool ticks = init.state == STOPPING || init.state == CLEARING;

        if (calls_ms && (!first || is_later(first, &calls_time)))
                first = &calls_time;
        int n = ppoll(list, 2, ticks ? &tick_time : first, while_waiting);
        if (n < 0)
                return errno != EINTR;
        if (list[1].revents & POLLIN)
                calls_serve();
        return list[0].revents != 0 && obey();
}

int init_main(void)
{
        struct error error = {};
        sigset_t while_waiting;

        if (prctl(PR_SET_DUMPABLE, 0) < 0 || watch_children(&while_waiting) < 0)
                return 1;
        if (disable_speculation(PR_SPEC_STORE_BYPASS) < 0 ||
            disable_speculation(PR_SPEC_INDIRECT_BRANCH) < 0)
                return 1;
        changes_open();
        if (greet() < 0)
                return 1;
        if (filter_load(INIT_FILTER_FD, &error) < 0)
                return 1;
        close(INIT_FILTER_FD);
        if (fd_write_all(INIT_RELEASE_FD, "r", 1) < 0)
                return 1;
        close(INIT_RELEASE_FD);

        for (;;) {
                int calls_ms = hold_wait() ? 0 : calls_retry();

                if (reap() || wait_and_serve(calls_ms, &while_waiting) || tick())
                        return 0;
                tick_rest();
                if (hold_wait())
                        tell_hold(hold_tick(last_pid()));
        }
}
