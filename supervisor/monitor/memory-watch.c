/*
 * Ends sessions that are over their memory limit, where no control group does.
 *
 * Theory of operation. A timer adds up the resident pages of each session (process_memory_bound()),
 * which counts shared pages more than once. Two parts of it are certain: the page tables of one
 * process, and what processes have taken since they were first seen. Above the limit, the session is
 * killed. Only if all of it is above the limit a child takes the exact figure; above the limit again,
 * the session is killed. The child competes with the session for the processors, and waits for locks of
 * processes that do not run: what they take meanwhile is certain, and no child is needed for it.
 *
 * A session of many small processes, or with copies that share their pages, is always above the first
 * figure: after an exact figure below the limit, the next one is taken when the first has grown, or
 * after some of the time that it took. While none of its processes has run since, it is taken only every
 * ten seconds, because the kernel may also change what processes share.
 *
 * A session whose figure does not change is looked at less often, and only at the CPU clocks of its processes while they
 * stand still: they were read before the processes were listed and added up, so that nothing can have changed since. This holds
 * for at most IDLE_MS, because the kernel may also add pages by itself (khugepaged).
 *
 * On a quiet machine one figure replaces the clocks of all: how long processors were not idle. While others than the monitor have used
 * less than STILL_US since the clocks were read, no session has run for longer, and the clocks are not read again for STILL_MS. The next look
 * comes sooner then, so that a session that wakes up is noticed no later.
 *
 * Buffers of sockets belong to no process. A session with more than SOCKETS_FREE sockets has them added up by a child, and
 * they count as its memory. Files in its tmpfs do not, since their sizes are bounds of their own, but they count in the sum of
 * all sessions. A control group counts sockets too, but only after accept(2), and version 1 apart from memory:
 * a session that has a network is over the limit with SOCKETS_MAX sockets that hold more than UNCOUNTED_MAX.
 */
#include "supervisor/monitor/memory-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "supervisor/monitor/process/process-clocks.h"
#include "supervisor/monitor/process/process-memory.h"
#include "supervisor/monitor/process/socket-memory.h"
#include "supervisor/monitor/template/sandbox.h"

enum {
        ACTIVE_MS = 20,
        QUIET_MS = 50,           /* between looks at any */
        IDLE_LOOKS = 4,          /* a session without changes is looked at only every fourth time */
        IDLE_AFTER = 20,         /* looks */
        BUDGET_US = 1000,        /* of one look */
        EXACT_TIMEOUT_MS = 2000, /* the session grows meanwhile */
        EXACT_AGAIN = 2,         /* a process about to exec may have been counted twice */
        EXACT_AGAIN_US = 10000,
        EXACT_PAUSE = 4,  /* times the duration of the last exact figure */
        STILL_US = 10000, /* as exact as the figure is */
        STILL_MS = 1000,
        STILL_LOOKS = 3, /* sooner by more than STILL_US */
        REST_MS = 10000, /* between exact figures of processes that do not run */
        IDLE_MS = 30000, /* between other figures of them */
        SOCKETS_MAX = 1024,
        SOCKETS_FREE = 32, /* these can have SOCKET_MEMORY_MOST each */
        UNCOUNTED_MAX = 16 << 20,
        SOCKETS_AGAIN_MS = 100,
        GROWTH_PART = 16, /* of the limit: growth that matters */
        SOCKSTAT_TEXT = 256,
        TOLD_STEP = 1024 * 1024,
        SHARED_MAX = 16 * 1024 * 1024, /* of the template's pages in a new session */
        PRIVATE_MIN = 4 * 1024 * 1024, /* of a session that does nothing (limits_sessions_max()) */
};

struct sockets {
        uint64_t n; /* when they were added up last, or are now */
        uint64_t bytes;
        uint64_t asked_ms, next_ms;
        struct child_task *task;
};

/* The state of the sandbox of a slot. */
struct watched {
        struct memory_watch *watch;
        uint32_t slot;
        uint32_t handle;
        uint32_t unchanged; /* looks */
        uint64_t bound;
        uint64_t exact_bound; /* the bound at the request for the exact figure */
        uint64_t asked_ms, next_exact_ms;
        uint64_t rest; /* process_rest() before the exact figure */
        struct child_task *task;
        struct sockets sockets;
        struct process_growth growth;
        struct process_clocks clocks;
        uint64_t
                idle_until_ms; /* 0: clocks were not read before the last figure of all processes */
        uint64_t told;         /* by host.used(); 0: not yet */
        uint64_t first; /* of those, the first: pages that it mostly shares with its template */
        uint64_t files; /* bytes of its tmpfs */
        bool is_killed;
};

struct memory_watch {
        struct memory_watch_host host;
        uint32_t at; /* where the last look ended */
        uint32_t round;
        uint64_t sum;                        /* of all own_part() */
        bool is_any, is_active, is_changing; /* in this round */
        bool is_still;
        bool rests;             /* nothing changes, and none was looked at in this round */
        uint64_t rest_until_ms; /* if rests: the first of them is looked at then */
        int64_t others_us;      /* process_clocks_of_others() before the clocks were read last */
        uint64_t read_ms;
        struct event *timer;
        /* Of each slot, NULL if its sandbox was not looked at yet. The state of a sandbox is larger than a page, and slots are taken at
         * random: a table of all would soon be 5 MiB, of which each stub that is forked later has a copy. */
        struct watched **watched;
};

static void arm(struct memory_watch *w, uint32_t rounds)
{
        struct timeval after = clock_timeval_ms(rounds * (w->is_active ? ACTIVE_MS : QUIET_MS));

        event_add(w->timer, &after);
}

static size_t run_exact(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        const struct sandbox_memory *memory = argument;
        struct process_memory found = process_memory_exact(memory->proc, memory->max);
        uint64_t exact = found.bytes;

        for (int again = 0;
             again < EXACT_AGAIN && found.least <= memory->max && exact > memory->max; again++) {
                usleep(EXACT_AGAIN_US);
                found = process_memory_exact(memory->proc, memory->max);
                exact = found.bytes < exact ? found.bytes : exact;
        }
        memcpy(reply, &exact, sizeof(exact));
        return 0;
}

static struct sandbox *sandbox_of(const struct watched *s)
{
        struct sandbox *sandbox = s->watch->host.sandboxes[s->slot];

        return sandbox && sandbox_handle(sandbox) == s->handle ? sandbox : NULL;
}

static void end(struct watched *s, struct sandbox *sandbox, const char *what, uint64_t n)
{
        s->is_killed = true;
        log_info("session %u is killed: %llu %s", sandbox_handle(sandbox), (unsigned long long)n,
                 what);
        sandbox_kill_for_memory(sandbox, MONITOR_LIMIT_SESSION);
}

/* Its part of the sum of all. */
static uint64_t own_part(const struct watched *s)
{
        return s->told == 0
                       ? 0
                       : PRIVATE_MIN + (s->told > s->first ? s->told - s->first : 0) + s->files;
}

/* The memory that its processes may have. */
static uint64_t most_of(const struct watched *s, const struct sandbox_memory *memory)
{
        return memory->max > s->sockets.bytes ? memory->max - s->sockets.bytes : 0;
}

static void tell(struct watched *s, struct sandbox *sandbox, uint64_t used)
{
        if (used > 0)
                used += s->sockets.bytes;
        uint64_t change = used > s->told ? used - s->told : s->told - used;

        if (used == 0 || (s->told != 0 && change < TOLD_STEP))
                return;
        if (s->told == 0)
                s->first = used < SHARED_MAX ? used : SHARED_MAX;
        s->watch->sum -= own_part(s);
        s->told = used;
        s->watch->sum += own_part(s);
        s->watch->host.used(s->watch->host.data, sandbox, used);
}

/* Of too many processes nothing is known. Above the limit the exact figure comes. */
static void tell_sum(struct watched *s, struct sandbox *sandbox)
{
        uint64_t used = 0;

        for (size_t i = 0; i < s->growth.n; i++) {
                const struct process_seen *seen = &s->growth.seen[i];
                if (seen->pid != 1 && !sandbox_is_copy(sandbox, (pid_t)seen->pid))
                        used += seen->all;
        }
        if (used <= most_of(s, sandbox_memory(sandbox)))
                tell(s, sandbox, used);
}

static void on_exact(void *data, const struct error *error, void *reply, int fds[CHILD_TASK_FDS],
                     size_t n_fds)
{
        struct watched *s = data;
        struct sandbox *sandbox = sandbox_of(s);
        uint64_t exact = 0;

        s->task = NULL;
        if (!sandbox)
                return;
        if (!error) {
                memcpy(&exact, reply, sizeof(exact));
        } else {
                log_warning("memory of session %u: %s", s->handle, error->text);
                s->rest = 0;
        }
        tell(s, sandbox, exact);
        uint64_t now = clock_ms();
        s->next_exact_ms = now + (now - s->asked_ms) * EXACT_PAUSE;
        /* Without an exact figure the other one counts, as it is now: the limit may have become higher
         * (sandbox_keep()). */
        if ((error ? s->bound : exact) > most_of(s, sandbox_memory(sandbox)))
                end(s, sandbox, "bytes of memory", error ? s->bound : exact);
}

static void ask_exact(struct watched *s, struct sandbox *sandbox,
                      const struct sandbox_memory *memory)
{
        struct sandbox_memory asked = {.proc = memory->proc, .max = most_of(s, memory)};
        const struct child_task_spec spec = {.name = "cloister-memory",
                                             .keep = {memory->proc},
                                             .n_keep = 1,
                                             .reply_size = sizeof(uint64_t),
                                             .timeout_ms = EXACT_TIMEOUT_MS,
                                             .run = run_exact,
                                             .argument = &asked};
        struct error error = {};
        bool has_grown = s->bound > s->exact_bound + memory->max / GROWTH_PART;

        if (s->task || (!has_grown && clock_ms() < s->next_exact_ms))
                return;
        uint64_t rest = process_rest(memory->proc);
        if (!has_grown && rest != 0 && rest == s->rest && clock_ms() < s->asked_ms + REST_MS)
                return;
        s->rest = rest;
        s->exact_bound = s->bound;
        s->asked_ms = clock_ms();
        if (child_task_start(s->watch->host.tasks, &spec, on_exact, s, &s->task, &error) < 0) {
                log_warning("memory of session %u: %s", s->handle, error.text);
                end(s, sandbox, "bytes of memory", s->bound);
        }
}

static uint64_t count_sockets(int sockstat)
{
        static const char key[] = "sockets: used ";
        char text[SOCKSTAT_TEXT];

        ssize_t n = pread(sockstat, text, sizeof(text) - 1, 0);
        text[n < 0 ? 0 : n] = '\0';
        return strncmp(text, key, strlen(key)) == 0 ? strtoull(text + strlen(key), NULL, 10) : 0;
}

/* ---- sockets ---- */

struct sockets_asked {
        int pidfd;
        uint64_t n;
};

static size_t run_sockets(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        const struct sockets_asked *asked = argument;
        uint64_t bytes = socket_memory(asked->pidfd, asked->n);

        memcpy(reply, &bytes, sizeof(bytes));
        return 0;
}

static void on_sockets(void *data, const struct error *error, void *reply, int fds[CHILD_TASK_FDS],
                       size_t n_fds)
{
        struct watched *s = data;
        struct sandbox *sandbox = sandbox_of(s);
        uint64_t bytes = s->sockets.n * SOCKET_MEMORY_MOST, now = clock_ms();

        s->sockets.task = NULL;
        if (!sandbox)
                return;
        if (!error)
                memcpy(&bytes, reply, sizeof(bytes));
        const struct sandbox_memory *memory = sandbox_memory(sandbox);
        s->sockets.bytes = bytes;
        s->sockets.next_ms = now + (now - s->sockets.asked_ms) * EXACT_PAUSE + SOCKETS_AGAIN_MS;
        if (memory && bytes > (memory->proc < 0 ? UNCOUNTED_MAX : memory->max))
                end(s, sandbox, "bytes of sockets", bytes);
}

static void add_up_sockets(struct watched *s, struct sandbox *sandbox, uint64_t n)
{
        struct sockets *sockets = &s->sockets;
        struct error error = {};

        if (sockets->task || (n <= sockets->n + SOCKETS_FREE && clock_ms() < sockets->next_ms))
                return;
        _cleanup_close_ int pidfd = pidfd_open(sandbox_pid(sandbox), 0);
        struct sockets_asked asked = {pidfd, n};
        const struct child_task_spec spec = {.name = "cloister-sockets",
                                             .keep = {pidfd},
                                             .n_keep = 1,
                                             .reply_size = sizeof(uint64_t),
                                             .timeout_ms = EXACT_TIMEOUT_MS,
                                             .run = run_sockets,
                                             .argument = &asked};
        sockets->n = n;
        sockets->asked_ms = clock_ms();
        if (pidfd < 0 || child_task_start(s->watch->host.tasks, &spec, on_sockets, s,
                                          &sockets->task, &error) < 0)
                sockets->bytes = n * SOCKET_MEMORY_MOST;
}

/* Returns whether their number has changed. */
static bool look_at_sockets(struct watched *s, struct sandbox *sandbox,
                            const struct sandbox_memory *memory)
{
        uint64_t n = count_sockets(memory->sockets), before = s->sockets.n;

        if (n > (memory->proc < 0 ? SOCKETS_MAX : SOCKETS_FREE))
                add_up_sockets(s, sandbox, n);
        else
                s->sockets.n = s->sockets.bytes = 0;
        if (memory->proc >= 0 && n > SOCKETS_MAX)
                end(s, sandbox, "sockets", n);
        return s->sockets.n != before;
}

/* ---- files ---- */

/* Of the tmpfs below the root of its /proc. A host directory in one of them counts for none: it is another file system. */
static uint64_t count_files(int proc)
{
        static const char *const places[] = {"../tmp", "../workspace", "../dev/shm"};
        uint64_t bytes = 0;

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                _cleanup_close_ int fd = openat(proc, places[i],
                                                O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                struct statfs fs;
                if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
                        bytes += (fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
        }
        return bytes;
}

static void look_at_files(struct watched *s, struct sandbox *sandbox, int proc)
{
        uint64_t files = count_files(proc),
                 change = files > s->files ? files - s->files : s->files - files;

        if (s->told == 0 || change < TOLD_STEP)
                return;
        s->watch->sum -= own_part(s);
        s->files = files;
        s->watch->sum += own_part(s);
        s->unchanged = 0;
        s->watch->is_active = true;
        s->watch->host.used(s->watch->host.data, sandbox, s->told);
}

static bool has_grown_too_much(const struct watched *s, const struct sandbox_memory *memory)
{
        uint64_t most = most_of(s, memory);

        return s->growth.bytes > most && process_memory_grown(memory->proc, &s->growth) > most;
}

/* ---- sessions that do not run ---- */

/* Call it after a figure of all processes, before which the clocks were read. */
static void note_idle(struct watched *s, const struct sandbox *sandbox)
{
        s->idle_until_ms = 0;
        if (s->unchanged < IDLE_AFTER)
                s->clocks.n = 0;
        else if (process_clocks_are_of(&s->clocks, &s->growth))
                s->idle_until_ms = clock_ms() + IDLE_MS;
        else
                process_clocks_find(&s->clocks, sandbox_pid(sandbox)); /* for the next time */
}

/* Whether nothing can have changed since the last figure, which was below the limit. Sockets receive without a process that runs. */
static bool is_idle(const struct watched *s, const struct sandbox_memory *memory, uint64_t now_ms)
{
        return now_ms < s->idle_until_ms && s->sockets.n == 0 && !s->sockets.task && !s->task &&
               s->bound <= memory->max &&
               (s->watch->is_still ? s->clocks.n > 0 : process_clocks_stand_still(&s->clocks));
}

static void look_at(struct watched *s, struct sandbox *sandbox, const struct sandbox_memory *memory)
{
        uint64_t before = s->bound;
        /* Then only the kernel can have changed anything. */
        bool rests = s->idle_until_ms != 0 && s->sockets.n == 0 &&
                     process_clocks_stand_still(&s->clocks);

        if (!rests && look_at_sockets(s, sandbox, memory))
                s->watch->is_active = true;
        if (memory->proc < 0 || s->is_killed)
                return;
        process_clocks_read(&s->clocks);
        struct process_memory found = process_memory_bound(memory->proc, &s->growth);
        uint64_t bound = found.bytes, most = most_of(s, memory);

        s->unchanged = bound == before ? s->unchanged + 1 : 0;
        s->bound = bound;
        note_idle(s, sandbox);
        tell_sum(s, sandbox);
        if (!rests)
                look_at_files(s, sandbox, memory->proc);
        if (bound > before + memory->max / GROWTH_PART || bound > memory->max / 2)
                s->watch->is_active = true;
        if (found.least > most)
                end(s, sandbox, "bytes of memory", found.least);
        else if (has_grown_too_much(s, memory))
                end(s, sandbox, "bytes of memory", s->growth.bytes);
        else if (bound > most)
                ask_exact(s, sandbox, memory);
        else
                s->exact_bound = 0;
}

static void forget(struct memory_watch *w, uint32_t slot)
{
        struct watched *s = w->watched[slot];

        if (!s)
                return;
        child_task_cancel(s->task);
        w->sum -= own_part(s);
        child_task_cancel(s->sockets.task);
        free(s);
        w->watched[slot] = NULL;
}

/* Returns the state of the sandbox in this slot. NULL: there is no memory for it, and the sandbox is killed, because nothing else
 * would bound it. */
static struct watched *state_of(struct memory_watch *w, uint32_t slot, struct sandbox *sandbox)
{
        uint32_t handle = sandbox_handle(sandbox);

        if (w->watched[slot] && w->watched[slot]->handle != handle)
                forget(w, slot);
        if (!w->watched[slot]) {
                struct watched *s = malloc(sizeof(*s));
                if (!s) {
                        log_warning("session %u is killed: no memory to watch its memory with",
                                    handle);
                        sandbox_kill(sandbox);
                        return NULL;
                }
                *s = (struct watched){.watch = w, .slot = slot, .handle = handle};
                w->watched[slot] = s;
        }
        return w->watched[slot];
}

/* Returns whether there is a sandbox to look at. */
static bool look_at_slot(struct memory_watch *w, uint32_t i, uint64_t now_ms)
{
        struct sandbox *sandbox = w->host.sandboxes[i];

        if (!sandbox) {
                forget(w, i);
                return false;
        }
        struct watched *s = state_of(w, i, sandbox);
        if (!s)
                return false;
        const struct sandbox_memory *memory = sandbox_memory(sandbox);
        /* It was restored. */
        s->is_killed &= sandbox_is_out_of_memory(sandbox);
        bool is_due = s->unchanged < IDLE_AFTER || w->round % IDLE_LOOKS == 0;
        bool rests = memory && !s->is_killed && is_due && is_idle(s, memory, now_ms);
        if (memory && is_due && !s->is_killed && !rests)
                look_at(s, sandbox, memory);
        w->rests &= rests;
        if (s->idle_until_ms < w->rest_until_ms)
                w->rest_until_ms = s->idle_until_ms;
        w->is_changing |= s->unchanged < IDLE_AFTER;
        return true;
}

/* Whether no session that rested when the clocks were read can have run since for longer than STILL_US. */
static bool stands_still(struct memory_watch *w, uint64_t now_ms)
{
        int64_t now = process_clocks_of_others(), used = now - w->others_us;
        bool is_still = now != INT64_MAX && now_ms < w->read_ms + STILL_MS && used < STILL_US &&
                        used > -STILL_US;

        if (!is_still) {
                w->others_us = now == INT64_MAX ? 0 : now;
                w->read_ms = now_ms;
        }
        return is_still;
}

/* Returns whether nothing has to be looked at. */
static bool begin_round(struct memory_watch *w, uint64_t now_ms)
{
        if (w->is_still && !w->is_changing)
                w->round += (IDLE_LOOKS - w->round % IDLE_LOOKS) % IDLE_LOOKS;
        if (w->round % IDLE_LOOKS == 0)
                w->is_still = stands_still(w, now_ms);
        if (w->is_still && w->rests && !w->is_changing && now_ms < w->rest_until_ms)
                return true;
        w->rests = true;
        w->rest_until_ms = UINT64_MAX;
        w->is_any = w->is_active = w->is_changing = false;
        return false;
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct memory_watch *w = data;
        uint64_t start = clock_us();

        if (w->at == 0 && begin_round(w, start / 1000)) {
                arm(w, STILL_LOOKS);
                return;
        }
        for (; w->at < w->host.n && clock_us() - start < BUDGET_US; w->at++)
                w->is_any |= look_at_slot(w, w->at, start / 1000);
        if (w->at < w->host.n) {
                /* The others in a moment, when other events have had their turn. */
                event_add(w->timer, &(struct timeval){.tv_usec = BUDGET_US});
                return;
        }
        w->at = 0;
        /* Rounds for sessions that change are left out while there is none. */
        uint32_t rounds = w->is_changing ? 1
                          : w->is_still  ? STILL_LOOKS
                                         : IDLE_LOOKS - w->round % IDLE_LOOKS;
        w->round += rounds;
        if (w->is_any)
                arm(w, rounds);
}

int memory_watch_new(const struct memory_watch_host *host, struct memory_watch **ret,
                     struct error *err)
{
        struct memory_watch *w = calloc(1, sizeof(*w));
        if (!w)
                return error_errno(err, ENOMEM, "memory watch");
        *w = (struct memory_watch){.host = *host,
                                   .timer = evtimer_new(host->base, on_timer, w),
                                   .watched = calloc(host->n, sizeof(struct watched *))};
        if (!w->timer || !w->watched) {
                memory_watch_free(w);
                return error_errno(err, ENOMEM, "memory watch");
        }
        *ret = w;
        return 0;
}

struct memory_watch *memory_watch_free(struct memory_watch *w)
{
        if (!w)
                return NULL;
        for (uint32_t i = 0; w->watched && i < w->host.n; i++)
                forget(w, i);
        if (w->timer)
                event_free(w->timer);
        free(w->watched);
        free(w);
        return NULL;
}

void memory_watch_wake(struct memory_watch *w)
{
        bool is_soon = w->is_changing || w->at > 0;

        w->is_changing = true;
        if (!is_soon || !event_pending(w->timer, EV_TIMEOUT, NULL))
                arm(w, 1);
}

void memory_watch_forget(struct memory_watch *w, uint32_t slot)
{
        forget(w, slot);
}

uint64_t memory_watch_sum(const struct memory_watch *w)
{
        return w->sum;
}

uint64_t memory_watch_part(const struct memory_watch *w, uint32_t slot)
{
        return w->watched[slot] ? own_part(w->watched[slot]) : 0;
}

uint64_t memory_watch_used(const struct memory_watch *w, const struct sandbox *sandbox)
{
        for (uint32_t i = 0; i < w->host.n; i++) {
                if (w->watched[i] && w->watched[i]->handle == sandbox_handle(sandbox))
                        return w->watched[i]->told;
        }
        return 0;
}
