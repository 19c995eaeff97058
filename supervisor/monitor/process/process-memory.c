/*
 * The memory of processes, from /proc.
 *
 * Theory of operation. The bound is the sum of statm's resident pages. Only
 * status, which takes the kernel several times as long, has the rest: swapped pages, and the page tables of a
 * process whose address space is large enough that they matter. Less address space counts with the page
 * tables that it can have at most.
 *
 * What processes have taken since they were seen first is certain too (struct process_growth).
 *
 * smaps_rollup gives a page to all its processes in equal parts. vfork() makes the same memory visible
 * in two processes. It is recognized by a parent that sleeps where signals do not wake it and has as
 * much memory; one child of each counted parent is left out so, or for a child of init one sibling. Code that imitates this hides at most
 * as much as is counted. A parent that does not sleep yet is counted twice: ask again, if
 * what is certain is not too much already.
 */
#include "supervisor/monitor/process/process-memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
        INIT = 1,
        THREADS_MAX = 48, /* of process_rest() */
        PATH_SIZE = 64,
        PROCESS_TEXT_SIZE = 4096,
};

/* ---- the processes that a procfs shows ---- */

/* The directory is read a few entries at a time: the kernel looks for the next process then, so that
 * none slips through which is the child of one that has just ended. */
struct process_cursor process_cursor_open(int proc, const char *path)
{
        return (struct process_cursor){
                .fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
}

void process_cursor_close(struct process_cursor *c)
{
        if (c->fd >= 0)
                close(c->fd);
}

long process_cursor_next(struct process_cursor *c)
{
        for (;;) {
                if (c->at == c->n) {
                        long n = syscall(SYS_getdents64, c->fd, c->buffer, sizeof(c->buffer));
                        if (n <= 0)
                                return 0;
                        c->at = 0;
                        c->n = (size_t)n;
                }
                const struct dirent64 *entry = (const void *)(c->buffer + c->at);
                c->at += entry->d_reclen;
                if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
                        return strtol(entry->d_name, NULL, 10);
        }
}

/* The text of a file of a process, with '\0' at its end. False: the process has ended. */
static bool process_read(int proc, const char *process, const char *name,
                         char text[PROCESS_TEXT_SIZE])
{
        char path[PATH_SIZE + 16];

        snprintf(path, sizeof(path), "%s/%s", process, name);
        _cleanup_close_ int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, PROCESS_TEXT_SIZE - 1);
        if (n < 0)
                return false;
        text[n] = '\0';
        return true;
}

/*
 * Whether processes have run.
 *
 * Theory of operation. A thread that runs is in state R, or is switched out again, which its counters
 * of context switches show. So a thread that is not in state R, and has the same counters as before, has
 * not run; and what none of them has started is not there.
 */

/* FNV-1a, by numbers. */
static const uint64_t HASH_START = 0xcbf29ce484222325, HASH_PRIME = 0x100000001b3;

static uint64_t mix(uint64_t hash, uint64_t number)
{
        return (hash ^ number) * HASH_PRIME;
}

static bool read_number(const char *text, const char *key, uint64_t *ret)
{
        const char *at = strstr(text, key);

        *ret = at ? strtoull(at + strlen(key), NULL, 10) : 0;
        return at != NULL;
}

static bool add_thread(int proc, const char *thread, uint64_t *hash)
{
        char text[PROCESS_TEXT_SIZE] _uninitialized_;
        uint64_t by_itself, others;

        if (!process_read(proc, thread, "status", text) || strstr(text, "\nState:\tR") ||
            !read_number(text, "\nvoluntary_ctxt_switches:", &by_itself) ||
            !read_number(text, "\nnonvoluntary_ctxt_switches:", &others))
                return false;
        *hash = mix(mix(*hash, by_itself), others);
        return true;
}

static bool add_process(int proc, long pid, int *left, uint64_t *hash)
{
        char path[PATH_SIZE];
        long thread;

        snprintf(path, sizeof(path), "%ld/task", pid);
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc, path);
        while ((thread = process_cursor_next(&c)) > 0) {
                snprintf(path, sizeof(path), "%ld/task/%ld", pid, thread);
                *hash = mix(*hash, (uint64_t)thread);
                if (--*left < 0 || !add_thread(proc, path, hash))
                        return false;
        }
        return true;
}

uint64_t process_rest(int proc)
{
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc, ".");
        uint64_t hash = HASH_START;
        int left = THREADS_MAX;
        long pid;

        while ((pid = process_cursor_next(&c)) > 0) {
                hash = mix(hash, (uint64_t)pid);
                if (pid != INIT && !add_process(proc, pid, &left, &hash))
                        return 0;
        }
        return hash == 0 ? 1 : hash;
}

#define GIB (1024ull * 1024 * 1024)

enum {
        PROCESSES_MAX = 65536, /* of the exact figure */
        ENTRIES_PER_TABLE = 512,
        GROWTH_DOUBT = 256 * 1024, /* of a process */
        SAME_BYTES = 1024 * 1024,  /* two figures of one memory, taken one after the other */
        DOUBT_PART = 4, /* of a figure, within which the other may be of the same memory */
};

struct process {
        long pid, parent, threads;
        char state;
        uint64_t bytes;
        bool is_counted, has_hidden_child;
};

static uint64_t page_size(void)
{
        return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The directory of a process that shows its memory, and its statm: if its first thread has ended,
 * those of another one. */
static bool find(int proc, long pid, char path[PATH_SIZE], char statm[PROCESS_TEXT_SIZE])
{
        char tasks[PATH_SIZE];
        long thread;

        snprintf(path, PATH_SIZE, "%ld", pid);
        if (!process_read(proc, path, "statm", statm))
                return false;
        if (strncmp(statm, "0 ", 2) != 0)
                return true;
        snprintf(tasks, sizeof(tasks), "%ld/task", pid);
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc, tasks);
        while ((thread = process_cursor_next(&c)) > 0) {
                snprintf(path, PATH_SIZE, "%ld/task/%ld", pid, thread);
                if (process_read(proc, path, "statm", statm) && strncmp(statm, "0 ", 2) != 0)
                        return true;
        }
        return false;
}

/* Of a line "key:   N kB", in bytes. */
static uint64_t kib_of(const char *text, const char *key)
{
        const char *line = strstr(text, key);

        return line ? strtoull(line + strlen(key), NULL, 10) * 1024 : 0;
}

/* The values that statm lacks, in bytes. */
struct beside {
        uint64_t swapped, tables;
};

static struct beside read_beside(int proc, const char *process)
{
        char text[PROCESS_TEXT_SIZE] _uninitialized_;

        if (!process_read(proc, process, "status", text))
                return (struct beside){};
        return (struct beside){kib_of(text, "\nVmSwap:"), kib_of(text, "\nVmPTE:")};
}

/* ret: of this process alone. False: it has no memory. */
static bool add_bound(int proc, long pid, bool has_swap, struct process_memory *sum,
                      struct process_seen *ret)
{
        char path[PATH_SIZE], text[PROCESS_TEXT_SIZE] _uninitialized_;
        char *end;

        if (!find(proc, pid, path, text))
                return false;
        uint64_t size = strtoull(text, &end, 10) * page_size();
        uint64_t resident = strtoull(end, &end, 10) * page_size();
        uint64_t shared = strtoull(end, NULL, 10) * page_size();
        bool is_read = has_swap || size > GIB;
        struct beside beside = is_read ? read_beside(proc, path)
                                       : (struct beside){.tables = size / ENTRIES_PER_TABLE};
        if (is_read && beside.tables > sum->least)
                sum->least = beside.tables;
        uint64_t private = (shared < resident ? resident - shared : 0) + beside.swapped;
        *ret = (struct process_seen){.pid = pid,
                                     .bytes = private,
                                     .least = private,
                                     .all = resident + beside.swapped + beside.tables};
        sum->bytes += ret->all;
        return true;
}

/* Kernels before 6.16 show the pages of a process a little later than they count them, by some on each
 * processor. */
static uint64_t growth_of(const struct process_seen *seen)
{
        uint64_t more = seen->bytes - seen->least;

        return more > GROWTH_DOUBT ? more - GROWTH_DOUBT : 0;
}

/* In the growth before. from: where to look first, because processes nearly always come in the same
 * order. */
static const struct process_seen *find_seen(const struct process_growth *before, size_t *from,
                                            long pid)
{
        for (size_t i = 0; i < before->n; i++) {
                const struct process_seen *seen = &before->seen[(*from + i) % before->n];
                if (seen->pid == pid) {
                        *from += i + 1;
                        return seen;
                }
        }
        return NULL;
}

static void add_growth(struct process_growth *growth, const struct process_seen *before,
                       struct process_seen seen)
{
        if (before && before->least < seen.bytes)
                seen.least = before->least;
        growth->seen[growth->n++] = seen;
        growth->bytes += growth_of(&seen);
}

struct process_memory process_memory_bound(int proc, struct process_growth *growth)
{
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc, ".");
        struct process_growth before = {};
        struct process_memory sum = {};
        struct sysinfo machine = {};
        size_t from = 0;
        long pid;

        if (growth) {
                before = *growth;
                *growth = (struct process_growth){};
        }
        sysinfo(&machine);
        for (int n = 0; (pid = process_cursor_next(&c)) > 0; n++) {
                if (n == PROCESS_GROWTH_MAX) {
                        if (growth)
                                *growth = (struct process_growth){};
                        return (struct process_memory){UINT64_MAX, sum.least};
                }
                struct process_seen seen;
                if (add_bound(proc, pid, machine.totalswap > 0, &sum, &seen) && growth)
                        add_growth(growth, find_seen(&before, &from, pid), seen);
        }
        return sum;
}

static uint64_t exact_of(int proc, long pid)
{
        char path[PATH_SIZE], text[PROCESS_TEXT_SIZE] _uninitialized_;

        if (!find(proc, pid, path, text))
                return 0;
        struct beside beside = read_beside(proc, path);
        if (!process_read(proc, path, "smaps_rollup", text))
                return beside.swapped + beside.tables;
        return kib_of(text, "\nPss:") + kib_of(text, "\nSwapPss:") + beside.tables;
}

/* State, parent and number of threads are fields 3, 4 and 20 of /proc/PID/stat (proc_pid_stat(5)), after
 * the name. */
static bool read_process(int proc, long pid, struct process *ret)
{
        char path[PATH_SIZE], text[PROCESS_TEXT_SIZE] _uninitialized_;

        snprintf(path, sizeof(path), "%ld", pid);
        if (!process_read(proc, path, "stat", text))
                return false;
        const char *at = strrchr(text, ')');
        *ret = (struct process){.pid = pid, .threads = 1};
        return at && sscanf(at,
                            ") %c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                            "%*s %ld",
                            &ret->state, &ret->parent, &ret->threads) >= 2;
}

/* The helper that forks a copy of the worker is a child of init as the worker is (CLONE_PARENT). */
static bool may_be_vforked(const struct process *child, const struct process *parent)
{
        return child->parent == parent->pid || (child->parent == 1 && parent->parent == 1);
}

static bool has_memory_of(const struct process *child, const struct process *parent, uint64_t about)
{
        uint64_t more = child->bytes > parent->bytes ? child->bytes - parent->bytes
                                                     : parent->bytes - child->bytes;

        return may_be_vforked(child, parent) && parent->is_counted && more <= about;
}

/* Lower pids come first, and with them nearly always the parents; others are counted. */
static bool is_hidden(struct process *all, size_t n, const struct process *child)
{
        for (size_t i = 0; i < n; i++) {
                if (all[i].state == 'D' && !all[i].has_hidden_child &&
                    has_memory_of(child, &all[i], SAME_BYTES)) {
                        all[i].has_hidden_child = true;
                        return true;
                }
        }
        return false;
}

/* Whether it may be a vfork()ed process that was not recognized: another thread may have changed the
 * memory between the two figures. Each thread can have one. */
static bool is_doubtful(struct process *all, size_t n, const struct process *child)
{
        for (size_t i = 0; i < n; i++) {
                if (all[i].threads > 0 &&
                    has_memory_of(child, &all[i], SAME_BYTES + all[i].bytes / DOUBT_PART)) {
                        all[i].threads--;
                        return true;
                }
        }
        return false;
}

/* Page tables: of all processes, and of the one that has most. The kernel takes long to walk many of
 * them for smaps_rollup. */
static struct process_memory tables_of_all(int proc)
{
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc, ".");
        char path[PATH_SIZE], statm[PROCESS_TEXT_SIZE] _uninitialized_;
        struct process_memory sum = {};
        long pid;

        for (int n = 0; n < PROCESSES_MAX && (pid = process_cursor_next(&c)) > 0; n++) {
                uint64_t tables = find(proc, pid, path, statm) ? read_beside(proc, path).tables : 0;
                sum.bytes += tables;
                sum.least = tables > sum.least ? tables : sum.least;
        }
        return sum;
}

struct process_memory process_memory_exact(int proc, uint64_t most)
{
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc, ".");
        _cleanup_free_ struct process *all = calloc(PROCESSES_MAX, sizeof(*all));
        struct process_memory tables = tables_of_all(proc);
        struct process_memory sum = {};
        size_t n = 0;
        long pid;

        if (tables.bytes > most)
                return tables;
        while (all && n < PROCESSES_MAX && sum.least <= most &&
               (pid = process_cursor_next(&c)) > 0) {
                if (!read_process(proc, pid, &all[n]))
                        continue;
                all[n].bytes = exact_of(proc, pid);
                all[n].is_counted = !is_hidden(all, n, &all[n]);
                if (all[n].is_counted)
                        sum.bytes += all[n].bytes;
                if (all[n].is_counted && !is_doubtful(all, n, &all[n]))
                        sum.least += all[n].bytes;
                n++;
        }
        return sum;
}

/* Adds a process, or of one that does not count only its parts of pages that it shares. The file has no
 * private part of swapped pages. False: it cannot be read. */
static bool add_held(int proc, long pid, bool is_counted, uint64_t *sum)
{
        char path[PATH_SIZE], text[PROCESS_TEXT_SIZE] _uninitialized_;

        if (!find(proc, pid, path, text))
                return true; /* it has ended */
        uint64_t tables = read_beside(proc, path).tables;
        if (!process_read(proc, path, "smaps_rollup", text))
                return !find(proc, pid, path, text);
        uint64_t bytes = kib_of(text, "\nPss:") + kib_of(text, "\nSwapPss:");
        uint64_t own = kib_of(text, "\nPrivate_Clean:") + kib_of(text, "\nPrivate_Dirty:");
        if (is_counted)
                *sum += bytes + tables;
        else
                *sum += bytes > own ? bytes - own : 0;
        return true;
}

/* Others come first: a page that one of them gives up after it was read then counts more than once, not
 * less. */
uint64_t process_memory_held(int proc, bool (*counts)(const void *data, long pid), const void *data)
{
        uint64_t sum = 0;
        bool is_any = false;
        long pid;

        for (int counted = 0; counted <= 1; counted++) {
                _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc,
                                                                                              ".");
                while ((pid = process_cursor_next(&c)) > 0) {
                        if (counts(data, pid) != (bool)counted)
                                continue;
                        is_any |= (bool)counted;
                        if (!add_held(proc, pid, counted, &sum))
                                return UINT64_MAX;
                }
        }
        return is_any ? sum : UINT64_MAX;
}

uint64_t process_memory_grown(int proc, const struct process_growth *growth)
{
        struct process all[PROCESS_GROWTH_MAX] _uninitialized_;
        uint64_t sum = 0;
        size_t n = 0;

        for (size_t i = 0; i < growth->n; i++) {
                if (!read_process(proc, growth->seen[i].pid, &all[n]))
                        continue;
                all[n].bytes = growth->seen[i].bytes;
                all[n].is_counted = !is_hidden(all, n, &all[n]);
                if (all[n].is_counted && !is_doubtful(all, n, &all[n]))
                        sum += growth_of(&growth->seen[i]);
                n++;
        }
        return sum;
}
