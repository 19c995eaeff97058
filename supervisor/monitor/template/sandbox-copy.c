/*
 * The copies of a sandbox's worker, as the monitor sees them (docs/cells.md).
 *
 * The pid that the broker names comes from the worker: it may be any number. Only a child of init is
 * looked at here, and init takes none that is not stopped.
 */
#include "supervisor/monitor/template/sandbox-copy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/process/process-memory.h"
#include "supervisor/monitor/template/sandbox-internal.h"

enum {
        CHILDREN_TEXT = 64 * 1024,
        CHILDREN_LOOKED_AT = 32, /* of init, the youngest: the copy has just become one */
        FIND_ATTEMPTS = 16,
        STATUS_TEXT = 4096,
        EXACT_TIMEOUT_MS = 2000,
        RESERVE_LEAST = 4 << 20, /* pages that a fork writes to, or has made for itself */
        RESERVE_PART = 128,      /* of limits.memory: page tables of two forks are a 256th of it */
};

/* ---- its processes ---- */

void sandbox_kill(struct sandbox *s)
{
        s->is_killed = true;
        if (s->network != 0 && s->pidfd >= 0 && s->left.namespace < 0)
                s->left = networks_open(s->pid);
        if (s->pidfd >= 0)
                syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
        if (s->cgroup)
                cgroup_kill(s->cgroup);
}

int sandbox_freeze(struct sandbox *s, bool frozen)
{
        return s->cgroup ? cgroup_freeze(s->cgroup, frozen) : -EOPNOTSUPP;
}

bool sandbox_is_copy(const struct sandbox *s, pid_t pid)
{
        for (size_t i = 0; i < s->n_copies; i++) {
                if (s->copies[i].pid == pid)
                        return true;
        }
        return s->keep_serial != 0 && s->candidate.pid == pid;
}

/* Writes to the pipe that init reads. 0 or negative errno. */
static int sandbox_send_init(struct sandbox *s, const struct init_request *request)
{
        ssize_t n = write(s->control, request, sizeof(*request));

        return n == sizeof(*request) ? 0 : n < 0 ? -errno : -EIO;
}

int sandbox_ask_init(struct sandbox *s, enum init_verb verb, pid_t pid)
{
        return sandbox_send_init(s, &(struct init_request){.verb = verb, .pid = pid});
}

struct sandbox_copy *sandbox_find_copy(struct sandbox *s, pid_t pid)
{
        for (size_t i = 0; i < s->n_copies; i++) {
                if (s->copies[i].pid == pid)
                        return &s->copies[i];
        }
        return NULL;
}

/* ---- how much memory the copies hold ---- */

/*
 * A copy is taken only if all of them together hold no more than the limit. Two
 * figures are known at once, and neither is too small: the sum of each copy's private memory, in which
 * pages that copies share count in each, and the anonymous memory of the control group, which has each
 * page once, those of the worker and of replaced copies too. Where both are above the limit, a child
 * takes the exact figure: walking the pages of all processes takes milliseconds.
 *
 * A copy can be a process of the guest that runs and grows. The control group, or memory-watch.c, counts
 * it in any case, against a limit that is never above twice s->limit and the reserve.
 */
static bool is_replaced(const struct sandbox *s, pid_t pid)
{
        for (size_t i = 0; i < INIT_INSTEAD_MAX; i++) {
                if (s->instead[i] == pid)
                        return true;
        }
        return false;
}

/* Where the control group's figure is taken the page tables count beside it, because many copies of the same
 * pages have many of them. */
static uint64_t sandbox_held_at_most(const struct sandbox *s)
{
        uint64_t sum = s->candidate.bytes, tables = s->candidate.tables;

        for (size_t i = 0; i < s->n_copies; i++) {
                if (is_replaced(s, s->copies[i].pid))
                        continue;
                sum += s->copies[i].bytes;
                tables += s->copies[i].tables;
        }
        if (sum <= s->limit || !s->cgroup)
                return sum;
        uint64_t anonymous = cgroup_anonymous(s->cgroup);
        return anonymous < sum ? anonymous + tables : sum;
}

static bool is_held(const void *data, long pid)
{
        const struct sandbox *s = data;

        return sandbox_is_copy(s, (pid_t)pid) && !is_replaced(s, (pid_t)pid);
}

/* In a child, which has the monitor's memory as it was. */
static size_t run_exact(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        const struct sandbox *s = argument;
        char path[64];
        uint64_t held = UINT64_MAX;
        snprintf(path, sizeof(path), "/proc/%d/root/proc", (int)s->pid);
        _cleanup_close_ int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc >= 0)
                held = process_memory_held(proc, is_held, s);
        memcpy(reply, &held, sizeof(held));
        return 0;
}

/* Asks a child for the exact figure. done() gets the sandbox and a reply of 8 bytes: UINT64_MAX if it is not known. */
static int sandbox_ask_held(struct sandbox *s, child_task_done *done)
{
        const struct child_task_spec spec = {.name = "cloister-copies",
                                             .reply_size = sizeof(uint64_t),
                                             .timeout_ms = EXACT_TIMEOUT_MS,
                                             .run = run_exact,
                                             .argument = s};
        struct error error = {};

        if (!s->host->tasks)
                return -EOPNOTSUPP;
        int r = child_task_start(s->host->tasks, &spec, done, s, &s->counting, &error);
        if (r < 0)
                log_warning("memory of the copies of session %u: %s", s->handle, error.text);
        return r;
}

/* ---- finding it ---- */

/* The last number of a line: the pid in the innermost namespace. */
static pid_t innermost(const char *status)
{
        const char *at = strstr(status, "\nNSpid:");
        long pid = 0;

        if (!at)
                return 0;
        at += strlen("\nNSpid:");
        for (char *end; *at != '\n' && *at != '\0'; at = end) {
                pid = strtol(at, &end, 10);
                if (end == at)
                        break;
        }
        return (pid_t)pid;
}

/* Of a line "key:   N kB", in bytes. */
static uint64_t bytes_of(const char *status, const char *key)
{
        const char *at = strstr(status, key);

        return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* Returns 1 if the process has this pid in the sandbox. */
static int look_at(long host_pid, pid_t pid, struct sandbox_copy *ret)
{
        char path[32], status[STATUS_TEXT];

        snprintf(path, sizeof(path), "/proc/%ld", host_pid);
        _cleanup_close_ int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int fd = dir < 0 ? -1 : openat(dir, "status", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : fd_read_full(fd, status, sizeof(status) - 1);
        if (n <= 0)
                return 0;
        status[n] = '\0';
        if (innermost(status) != pid)
                return 0;
        *ret = (struct sandbox_copy){.dir = take_fd(dir),
                                     .pid = pid,
                                     .bytes = bytes_of(status, "\nRssAnon:"),
                                     .tables = bytes_of(status, "\nVmPTE:")};
        return 1;
}

/* Host pids of children that have another pid in the sandbox. */
struct others {
        long pids[2 * CHILDREN_LOOKED_AT];
        size_t n;
};

static bool is_known(const struct others *others, long host_pid)
{
        for (size_t i = 0; i < others->n; i++) {
                if (others->pids[i] == host_pid)
                        return true;
        }
        return false;
}

/* The youngest child is the last in the list. */
static int find_in_list(pid_t init, pid_t pid, struct others *others, struct sandbox_copy *ret)
{
        _cleanup_free_ char *list = NULL;
        char path[64];
        size_t n = 0;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)init, (int)init);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fd_read_whole(fd, CHILDREN_TEXT, &list, &n, NULL) < 0)
                return -ESRCH;
        for (int i = 0; i < CHILDREN_LOOKED_AT && n > 0; i++) {
                while (n > 0 && list[n - 1] == ' ')
                        list[--n] = '\0';
                while (n > 0 && list[n - 1] != ' ')
                        n--;
                long host_pid = strtol(list + n, NULL, 10);
                if (is_known(others, host_pid))
                        continue;
                if (look_at(host_pid, pid, ret))
                        return 0;
                if (others->n < ARRAY_SIZE(others->pids))
                        others->pids[others->n++] = host_pid;
        }
        return -ESRCH;
}

/* The kernel omits children from the list when others are reaped while it writes the list (get_children_pid() in
 * fs/proc/array.c). */
int sandbox_find_child(pid_t init, pid_t pid, struct sandbox_copy *ret)
{
        struct others others = {};
        int r = -ESRCH;

        for (int i = 0; i < FIND_ATTEMPTS && r < 0; i++)
                r = find_in_list(init, pid, &others, ret);
        return r;
}

/* ---- the list ---- */

static void forget(struct sandbox_copy *copy)
{
        if (copy->dir >= 0)
                close(copy->dir);
        *copy = (struct sandbox_copy){.dir = -1};
}

static void remove_copy(struct sandbox *s, pid_t pid)
{
        struct sandbox_copy *copy = sandbox_find_copy(s, pid);

        if (!copy)
                return;
        forget(copy);
        s->n_copies--;
        memmove(copy, copy + 1, (size_t)(&s->copies[s->n_copies] - copy) * sizeof(*copy));
}

void sandbox_forget_copies(struct sandbox *s)
{
        while (s->n_copies > 0)
                forget(&s->copies[--s->n_copies]);
}

/* ---- taking one ---- */

uint64_t sandbox_reserve(const struct sandbox *s)
{
        return RESERVE_LEAST + s->limit / RESERVE_PART;
}

/* Without it, a cell that rewrites its memory would have only a part of it: the copies keep the rest. At
 * this moment the worker is as large as its newest copy, so that a lower limit fits too. */
static void set_limit(struct sandbox *s)
{
        struct error error = {};

        s->memory.max = s->limit + s->held;
        if (s->cgroup &&
            cgroup_set_memory(s->cgroup, s->memory.max + sandbox_reserve(s), &error) < 0)
                log_debug("session %u: %s", s->handle, error.text);
}

/* The candidate, of which it is known now that all copies have `held` bytes with it. */
static int offer(struct sandbox *s, uint64_t held)
{
        struct init_request request = {.verb = s->candidate.is_aside ? INIT_KEEP_ASIDE : INIT_KEEP,
                                       .pid = s->candidate.pid};

        if (held > s->limit) {
                int r = sandbox_ask_init(s, INIT_DROP, s->candidate.pid);
                return r < 0 ? r : -ENOMEM;
        }
        memcpy(request.instead, s->instead, sizeof(request.instead));
        s->held = held;
        return sandbox_send_init(s, &request);
}

static void add_copy(struct sandbox *s)
{
        for (size_t i = 0; i < INIT_INSTEAD_MAX; i++)
                remove_copy(s, s->instead[i]);
        if (s->n_copies == INIT_COPIES_MAX) { /* init has as many places */
                forget(&s->candidate);
                return;
        }
        s->copies[s->n_copies++] = s->candidate;
        s->candidate = (struct sandbox_copy){.dir = -1};
        set_limit(s);
}

void sandbox_end_keep(struct sandbox *s, int r)
{
        uint32_t serial = s->keep_serial;

        if (serial == 0)
                return;
        s->keep_serial = 0;
        s->counting = child_task_cancel(s->counting);
        if (r >= 0)
                add_copy(s);
        else
                forget(&s->candidate);
        s->host->kept(s->host->data, s, serial, r);
}

static void on_held(void *data, const struct error *error, void *reply, int fds[CHILD_TASK_FDS],
                    size_t n_fds)
{
        struct sandbox *s = data;
        uint64_t held = UINT64_MAX;
        s->counting = NULL;
        if (error)
                log_warning("memory of the copies of session %u: %s", s->handle, error->text);
        else
                memcpy(&held, reply, sizeof(held));
        int r = offer(s, held);
        if (r < 0)
                sandbox_end_keep(s, r);
}

int sandbox_keep(struct sandbox *s, pid_t pid, bool is_aside, const pid_t instead[INIT_INSTEAD_MAX],
                 uint32_t serial)
{
        struct sandbox_copy found;

        if (s->keep_serial != 0)
                return -EBUSY;
        int r = sandbox_find_child(s->pid, pid, &found);
        if (r < 0)
                return r;
        found.is_aside = is_aside;
        s->candidate = found;
        memcpy(s->instead, instead, sizeof(s->instead));
        s->keep_serial = serial;
        uint64_t held = sandbox_held_at_most(s);
        if (held > s->limit && sandbox_ask_held(s, on_held) >= 0)
                return 0;
        r = offer(s, held);
        if (r < 0) {
                s->keep_serial = 0;
                forget(&s->candidate);
        }
        return r;
}

/* The limit is set again when the next one is taken: the worker may have grown. */
int sandbox_drop(struct sandbox *s, pid_t pid)
{
        if (!sandbox_find_copy(s, pid))
                return -ESRCH;
        remove_copy(s, pid);
        return sandbox_ask_init(s, INIT_DROP, pid);
}

void sandbox_note_gone(struct sandbox *s, pid_t pid)
{
        if (!sandbox_find_copy(s, pid))
                return;
        remove_copy(s, pid);
        s->host->gone(s->host->data, s, pid);
}

/* They end with the worker, or the one of them that was chosen is the worker. */
static void remove_aside(struct sandbox *s)
{
        for (size_t i = s->n_copies; i > 0; i--) {
                if (s->copies[i - 1].is_aside)
                        remove_copy(s, s->copies[i - 1].pid);
        }
}

void sandbox_promote_copy(struct sandbox *s, pid_t pid)
{
        remove_copy(s, pid);
        remove_aside(s);
}

/* ---- the restore ---- */

int sandbox_restore(struct sandbox *s, pid_t pid)
{
        if (pid != 0 && !sandbox_find_copy(s, pid))
                return -ESRCH;
        return sandbox_ask_init(s, INIT_RESTORE, pid);
}
