/*
 * The processes of a session that waits for a call, without control groups.
 *
 * Theory of operation. A bucket fills with 1/200 of a processor, and the processor time of the processes is taken from it. All
 * are stopped while it is empty, so that a server that waits, or a timer, is never stopped. The time is the growth of the sum
 * over all processes, with their children that have ended. That lacks a process that no parent waits for: each that was made
 * counts for 10 ms, and if there are fewer processes than before, one processor counts for all the time.
 *
 * A process in kill() as it is stopped may continue others, and so may a timer whose signal is SIGCONT: all are stopped again
 * while one runs, and what then still runs, time after time, is killed. Processes that were stopped before, by code, stay so.
 */
#include "sandbox-init/init/rest.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rpc/sandbox-messages.h"
#include "sandbox-init/init/init-clock.h"

#define MS INT64_C(1000000) /* nanoseconds */

enum {
        LIST_SIZE = 16 * 1024,
        STAT_SIZE = 512,
        PART = 200, /* one PART-th of a processor */
        BURST_MS = 100,
        DEBT_MS = 1000, /* many processors use that between two readings */
        RUN_MS = 4,     /* between two readings while processes run */
        QUIET_MS = 100, /* while they use little, or are stopped */
        CHECK_MS = 1,   /* after a stop: whether none runs */
        AGAIN_MS = 10,
        AGAIN_MAX = 20, /* looks at which something ran that had been stopped */
        MADE_MS = 10,   /* of a process that was made, and may have ended */
        TICK_MS = 10,   /* of /proc (USER_HZ) */
        HELD_MAX = 64,
        SWEEPS_MAX = 100,
};

/* Fields of /proc/PID/stat (proc_pid_stat(5)). */
struct status {
        char state; /* of the first thread */
        int parent, threads;
        long long children; /* ticks of those that have ended */
        long long started;  /* ticks */
};

static struct {
        enum { REST_OFF, REST_RUNS, REST_STOPPED } state;
        bool is_over;
        int again;
        int64_t debt, left, at, sum; /* ns */
        int64_t own;                 /* ns of init itself, at the end of the last reading */
        pid_t last, held[HELD_MAX];
        size_t n, n_held;
        struct timespec wait;
} rest;

/* ---- processes ---- */

static size_t each_of(int directory, size_t (*f)(pid_t pid, void *data), void *data)
{
        _Alignas(struct dirent64) char list[LIST_SIZE];
        size_t found = 0;
        long size;

        if (lseek(directory, 0, SEEK_SET) < 0)
                return 1;
        while ((size = syscall(SYS_getdents64, directory, list, sizeof(list))) > 0) {
                for (long at = 0; at < size;) {
                        const struct dirent64 *entry = (const void *)(list + at);
                        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

                        at += entry->d_reclen;
                        if (pid > 0)
                                found += f(pid, data);
                }
        }
        return size < 0 ? 1 : found;
}

size_t rest_each(size_t (*f)(pid_t pid, void *data), void *data)
{
        return each_of(INIT_PROC_FD, f, data);
}

/* Of a process, or of a thread in its directory `task`. False: there is none. */
static bool read_status_in(int directory, pid_t pid, struct status *ret)
{
        char path[32], text[STAT_SIZE];

        snprintf(path, sizeof(path), "%d/stat", (int)pid);
        int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (fd >= 0)
                close(fd);
        text[n < 0 ? 0 : n] = '\0';
        const char *name_end = strrchr(text, ')');
        long long children[2] = {};
        int found = 0;

        if (name_end)
                found = sscanf(
                        name_end,
                        ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lld %lld %*d %*d %d %*d %lld",
                        &ret->state, &ret->parent, &children[0], &children[1], &ret->threads,
                        &ret->started);
        ret->children = children[0] + children[1];
        return found == 6;
}

static bool read_status(pid_t pid, struct status *ret)
{
        return read_status_in(INIT_PROC_FD, pid, ret);
}

/* A process whose first thread has ended is a zombie to its parent, while its other threads run. */
static bool has_ended(const struct status *status)
{
        return status->state == 'X' || (status->state == 'Z' && status->threads <= 1);
}

/* The clock of all threads of a process (MAKE_PROCESS_CPUCLOCK() of the kernel). */
static int64_t cpu_of(pid_t pid)
{
        return init_clock_ns((clockid_t)(~(unsigned)pid << 3 | 2));
}

/* ---- stopping ---- */

static size_t note_held(pid_t pid, void *data)
{
        struct status status;

        if (pid > 1 && rest.n_held < HELD_MAX && read_status(pid, &status) && status.state == 'T')
                rest.held[rest.n_held++] = pid;
        return 0;
}

void rest_stop(void)
{
        rest.n_held = 0;
        rest_each(note_held, NULL);
        kill(-1, SIGSTOP);
}

void rest_stop_again(void)
{
        kill(-1, SIGSTOP);
}

static bool is_held(pid_t pid)
{
        for (size_t i = 0; i < rest.n_held; i++) {
                if (rest.held[i] == pid)
                        return true;
        }
        return false;
}

static size_t continue_one(pid_t pid, void *data)
{
        if (pid > 1 && !is_held(pid))
                kill(pid, SIGCONT);
        return 0;
}

/* In state D it stops before it runs code again. */
static size_t is_thread_running(pid_t thread, void *data)
{
        struct status status;

        return read_status_in(*(const int *)data, thread, &status) &&
               !strchr("TtDZX", status.state);
}

static size_t count_running_threads(pid_t pid)
{
        char path[32];

        snprintf(path, sizeof(path), "%d/task", (int)pid);
        int task = openat(INIT_PROC_FD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (task < 0)
                return 0;
        size_t n = each_of(task, is_thread_running, &task);
        close(task);
        return n;
}

/* The state of a process is that of its first thread. */
static size_t is_running(pid_t pid, void *data)
{
        struct status status;

        if (pid <= 1 || !read_status(pid, &status) || has_ended(&status))
                return 0;
        return status.state == 'Z' ? count_running_threads(pid) : !strchr("TtD", status.state);
}

/* A thread that waits for a processor stops when it gets one. *data: whether state D counts. Reads more than is_running(): a session
 * at rest would be looked at less often. */
static size_t is_unstopped(pid_t pid, void *data)
{
        const bool *stuck = data;
        struct status status;

        if (pid <= 1 || !read_status(pid, &status) || has_ended(&status))
                return 0;
        if (status.state != 'Z' && !strchr(*stuck ? "Tt" : "TtD", status.state))
                return 1;
        return count_running_threads(pid);
}

size_t rest_count_running(bool stuck)
{
        return rest_each(is_unstopped, &stuck);
}

void rest_continue(void)
{
        rest_each(continue_one, NULL);
}

static size_t kill_running(pid_t pid, void *data)
{
        if (is_running(pid, NULL))
                kill(pid, SIGKILL);
        return 0;
}

static size_t count_one(pid_t pid, void *data)
{
        const struct rest_spared *spared = data;

        return pid != spared->worker && !spared->is_copy(pid);
}

/* ---- what they use ---- */

static size_t measure_one(pid_t pid, void *data)
{
        int64_t *sum = data;
        struct status status;

        *sum += (pid == 1 ? 0 : cpu_of(pid)) +
                (read_status(pid, &status) ? status.children * TICK_MS * MS : 0);
        return 1;
}

static size_t read_one(pid_t pid, void *data)
{
        *(int64_t *)data += pid == 1 ? 0 : cpu_of(pid);
        return 1;
}

int64_t rest_used_ns(void)
{
        int64_t sum = 0;

        rest_each(measure_one, &sum);
        return sum;
}

struct rest_reading rest_read(pid_t last)
{
        struct rest_reading now = {.last = last};

        now.n = rest_each(read_one, &now.cpu);
        return now;
}

/* Since the last call. */
static int64_t measure(pid_t last, int64_t elapsed)
{
        int64_t sum = 0, made = (int64_t)(last - rest.last) * MADE_MS * MS;
        size_t n = rest_each(measure_one, &sum);

        if (made > elapsed || made < 0 || n < rest.n)
                made = elapsed;
        int64_t used = sum - rest.sum > made ? sum - rest.sum : made;
        rest.n = n;
        rest.sum = sum;
        rest.last = last;
        return used;
}

/* ---- what an interrupted cell has started ---- */

static struct {
        struct rest_spared spared;
        int64_t since;
} sweep;

static bool is_young(pid_t pid, struct status *ret)
{
        return read_status(pid, ret) && ret->started >= sweep.since && !has_ended(ret);
}

static size_t sweep_one(pid_t pid, void *data)
{
        struct status status, parent;

        if (pid == sweep.spared.worker || sweep.spared.is_copy(pid) || !is_young(pid, &status))
                return 0;
        if (status.parent != 1 && status.parent != sweep.spared.worker) {
                if (!is_young(status.parent, &parent))
                        return 0;
                return 1; /* the parent ends first, and this one is init's then */
        }
        kill(pid, SIGKILL);
        return 1;
}

/* ---- a session at rest ---- */

static void wait_for(int64_t ns)
{
        rest.wait = (struct timespec){ns / (1000 * MS), ns % (1000 * MS)};
}

void rest_begin(int32_t ms, pid_t last)
{
        rest_end(true);
        rest.state = REST_RUNS;
        rest.is_over = false;
        rest.again = 0;
        rest.left = ms == INT32_MAX ? INT64_MAX : ms * MS;
        rest.debt = -BURST_MS * MS;
        rest.at = init_clock_ns(CLOCK_MONOTONIC);
        measure(last, 0);
        rest.own = init_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        wait_for(RUN_MS * MS);
}

void rest_end(bool continues)
{
        if (rest.state == REST_STOPPED && continues)
                rest_continue();
        rest.state = REST_OFF;
}

const struct timespec *rest_wait(void)
{
        return rest.state == REST_OFF ? NULL : &rest.wait;
}

/* How long they may be left alone: the reading itself takes at most half of their part. */
static int64_t quiet_time(int64_t most, int64_t cost)
{
        int64_t quiet = most < QUIET_MS * MS ? most : QUIET_MS * MS;

        return quiet > cost * 2 * PART ? quiet : cost * 2 * PART;
}

static void tick_stopped(int64_t cost)
{
        bool are_any = rest_each(is_running, NULL) > 0;

        if (are_any && ++rest.again > AGAIN_MAX)
                rest_each(kill_running, NULL);
        if (are_any)
                kill(-1, SIGSTOP);
        wait_for(are_any ? AGAIN_MS * MS
                         : quiet_time(rest.is_over ? INT64_MAX : rest.debt * PART, cost));
}

/* The next reading comes soon while they use more than their part. */
static void tick_running(int64_t used, int64_t elapsed, int64_t cost)
{
        if (rest.is_over || rest.debt > 0) {
                rest_stop();
                rest.state = REST_STOPPED;
                wait_for(CHECK_MS * MS);
        } else if (used > elapsed / PART || elapsed < RUN_MS * MS) {
                wait_for(RUN_MS * MS);
        } else {
                wait_for(quiet_time(elapsed * 2, cost));
        }
}

size_t rest_tick(const struct rest_spared *spared, pid_t last)
{
        int64_t now = init_clock_ns(CLOCK_MONOTONIC), elapsed = now - rest.at;
        bool was_over = rest.is_over;

        if (!rest_wait() || elapsed < rest.wait.tv_sec * 1000 * MS + rest.wait.tv_nsec)
                return 0;
        /* init works for them, too, when it answers their calls (calls.h). */
        int64_t own = init_clock_ns(CLOCK_PROCESS_CPUTIME_ID),
                used = measure(last, elapsed) + own - rest.own;
        int64_t cost = (rest.own = init_clock_ns(CLOCK_PROCESS_CPUTIME_ID)) - own;
        rest.at = now;
        rest.left -= used + cost; /* holding them back is part of what they cost */
        rest.is_over |= rest.left <= 0;
        rest.debt += used + cost - elapsed / PART;
        rest.debt = rest.debt > DEBT_MS * MS     ? DEBT_MS * MS
                    : rest.debt < -BURST_MS * MS ? -BURST_MS * MS
                                                 : rest.debt;
        if (rest.state == REST_RUNS) {
                tick_running(used, elapsed, cost);
        } else if (rest.is_over || rest.debt > 0) {
                tick_stopped(cost);
        } else {
                rest_continue();
                rest.state = REST_RUNS;
                wait_for(RUN_MS * MS);
        }
        if (was_over || !rest.is_over)
                return 0;
        size_t n = rest_each(count_one, (void *)spared);
        return n > 0 ? n : 1;
}

void rest_sweep(const struct rest_spared *spared, int32_t since)
{
        const struct timespec pause = {.tv_nsec = MS};
        int64_t now = init_clock_ns(CLOCK_BOOTTIME) / (TICK_MS * MS);

        rest_end(true);
        sweep.spared = *spared;
        sweep.since = now - ((now - since) & INT32_MAX);
        rest_stop();
        for (int i = 0; i < SWEEPS_MAX && rest_each(sweep_one, NULL) > 0; i++)
                ppoll(NULL, 0, &pause, NULL);
        rest_continue();
}
