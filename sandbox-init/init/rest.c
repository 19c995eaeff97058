/*
 * The processes of a session that waits for a call, without control groups.
 *
 * Theory of operation. A bucket fills with 1/200 of a processor, and the processor time of the processes is taken from it. All
 * are stopped while it is empty, so that a server that waits, or a timer, is never stopped. The time is the growth of the sum
 * over all processes, with their children that have ended. That lacks a process that no parent waits for: each that was made
 * counts for 10 ms, and if there are fewer processes than before, one processor counts for all the time.
 *
 * A process in kill() as it is stopped may continue others, so all are stopped again until none runs. Processes that were
 * stopped before, by code, stay so.
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

#define MS INT64_C(1000000) /* nanoseconds */

enum {
        LIST_SIZE = 16 * 1024,
        STAT_SIZE = 512,
        PART = 200, /* one PART-th of a processor */
        BURST_MS = 100,
        DEBT_MS = 20,
        RUN_MS = 4,     /* between two readings while processes run */
        QUIET_MS = 100, /* while they use little */
        CHECK_MS = 1,   /* after a stop: whether none runs */
        AGAIN_MS = 10,
        MADE_MS = 10, /* of a process that was made, and may have ended */
        TICK_MS = 10, /* of /proc (USER_HZ) */
        HELD_MAX = 64,
        SWEEPS_MAX = 100,
};

/* Fields of /proc/PID/stat (proc_pid_stat(5)). */
struct status {
        char state;
        int parent;
        long long children; /* ticks of those that have ended */
        long long started;  /* ticks */
};

static struct {
        enum { REST_OFF, REST_RUNS, REST_STOPPED } state;
        bool is_over, is_still;      /* is_still: none runs any more */
        int64_t debt, left, at, sum; /* ns */
        pid_t last, held[HELD_MAX];
        size_t n, n_held;
        struct timespec wait;
} rest;

/* ---- processes ---- */

size_t rest_each(size_t (*f)(pid_t pid, void *data), void *data)
{
        _Alignas(struct dirent64) char list[LIST_SIZE];
        size_t found = 0;
        long size;

        if (lseek(INIT_PROC_FD, 0, SEEK_SET) < 0)
                return 1;
        while ((size = syscall(SYS_getdents64, INIT_PROC_FD, list, sizeof(list))) > 0) {
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

/* False: there is no such process. */
static bool read_status(pid_t pid, struct status *ret)
{
        char path[32], text[STAT_SIZE];

        snprintf(path, sizeof(path), "%d/stat", (int)pid);
        int fd = openat(INIT_PROC_FD, path, O_RDONLY | O_CLOEXEC);
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
                        ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lld %lld %*d %*d %*d %*d %lld",
                        &ret->state, &ret->parent, &children[0], &children[1], &ret->started);
        ret->children = children[0] + children[1];
        return found == 5;
}

static int64_t clock_ns(clockid_t clock)
{
        struct timespec t = {};

        return clock_gettime(clock, &t) < 0 ? 0 : t.tv_sec * 1000 * MS + t.tv_nsec;
}

/* The clock of all threads of a process (MAKE_PROCESS_CPUCLOCK() of the kernel). */
static int64_t cpu_of(pid_t pid)
{
        return clock_ns((clockid_t)(~(unsigned)pid << 3 | 2));
}

/* ---- stopping ---- */

static size_t note_held(pid_t pid, void *data)
{
        struct status status;

        if (pid > 1 && rest.n_held < HELD_MAX && read_status(pid, &status) && status.state == 'T')
                rest.held[rest.n_held++] = pid;
        return 0;
}

static void stop(void)
{
        rest.n_held = 0;
        rest_each(note_held, NULL);
        kill(-1, SIGSTOP);
}

static size_t continue_one(pid_t pid, void *data)
{
        for (size_t i = 0; i < rest.n_held; i++) {
                if (rest.held[i] == pid)
                        return 0;
        }
        if (pid > 1)
                kill(pid, SIGCONT);
        return 0;
}

/* In state D it stops before it runs code again. */
static size_t is_running(pid_t pid, void *data)
{
        struct status status;

        return pid > 1 && read_status(pid, &status) && !strchr("TtDZX", status.state);
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

/* ---- a session at rest ---- */

static void wait_for(int64_t ns)
{
        rest.wait = (struct timespec){ns / (1000 * MS), ns % (1000 * MS)};
}

void rest_begin(int32_t ms, pid_t last)
{
        rest_end(true);
        rest.state = REST_RUNS;
        rest.is_over = rest.is_still = false;
        rest.left = ms == INT32_MAX ? INT64_MAX : ms * MS;
        rest.debt = -BURST_MS * MS;
        rest.at = clock_ns(CLOCK_MONOTONIC);
        measure(last, 0);
        wait_for(RUN_MS * MS);
}

void rest_end(bool continues)
{
        if (rest.state == REST_STOPPED && continues)
                rest_each(continue_one, NULL);
        rest.state = REST_OFF;
}

const struct timespec *rest_wait(void)
{
        return rest.state == REST_OFF || rest.is_still ? NULL : &rest.wait;
}

/* Until none runs. */
static void tick_stopped(void)
{
        bool are_any = rest_each(is_running, NULL) > 0;

        if (are_any)
                kill(-1, SIGSTOP);
        rest.is_still = rest.is_over && !are_any;
        wait_for(are_any ? AGAIN_MS * MS : rest.debt * PART);
}

/* The next reading comes soon while they use more than their part; the reading itself takes at most half of that. */
static void tick_running(int64_t used, int64_t elapsed, int64_t cost)
{
        int64_t quiet = elapsed * 2 < QUIET_MS * MS ? elapsed * 2 : QUIET_MS * MS;

        if (rest.is_over || rest.debt > 0) {
                stop();
                rest.state = REST_STOPPED;
                wait_for(CHECK_MS * MS);
        } else if (used > elapsed / PART || elapsed < RUN_MS * MS) {
                wait_for(RUN_MS * MS);
        } else {
                wait_for(quiet > cost * 2 * PART ? quiet : cost * 2 * PART);
        }
}

size_t rest_tick(const struct rest_spared *spared, pid_t last)
{
        int64_t now = clock_ns(CLOCK_MONOTONIC), elapsed = now - rest.at;
        bool was_over = rest.is_over;

        if (!rest_wait() || elapsed < rest.wait.tv_sec * 1000 * MS + rest.wait.tv_nsec)
                return 0;
        int64_t own = clock_ns(CLOCK_PROCESS_CPUTIME_ID), used = measure(last, elapsed);
        int64_t cost = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
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
                tick_stopped();
        } else {
                rest_each(continue_one, NULL);
                rest.state = REST_RUNS;
                wait_for(RUN_MS * MS);
        }
        if (was_over || !rest.is_over)
                return 0;
        size_t n = rest_each(count_one, (void *)spared);
        return n > 0 ? n : 1;
}

/* ---- what an interrupted cell has started ---- */

struct sweep {
        const struct rest_spared *spared;
        int64_t since;
};

static bool is_young(const struct sweep *s, pid_t pid, struct status *ret)
{
        return read_status(pid, ret) && ret->started >= s->since && !strchr("ZX", ret->state);
}

static size_t sweep_one(pid_t pid, void *data)
{
        const struct sweep *s = data;
        struct status status, parent;

        if (pid == s->spared->worker || s->spared->is_copy(pid) || !is_young(s, pid, &status))
                return 0;
        for (size_t i = 0; i < rest.n_held; i++) {
                if (rest.held[i] == pid)
                        return 0;
        }
        if (status.parent != 1 && status.parent != s->spared->worker)
                return is_young(s, status.parent,
                                &parent); /* ends first, and this one is init's then */
        kill(pid, SIGKILL);
        return 1;
}

void rest_sweep(const struct rest_spared *spared, int32_t since)
{
        const struct timespec pause = {.tv_nsec = MS};
        struct sweep s = {spared, since};

        rest_end(true);
        stop();
        for (int i = 0; i < SWEEPS_MAX && rest_each(sweep_one, &s) > 0; i++)
                ppoll(NULL, 0, &pause, NULL);
        rest_each(continue_one, NULL);
}
