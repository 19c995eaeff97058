/*
 * How much memory the copies of a sandbox hold (docs/cells.md).
 *
 * Theory of operation. A copy is taken only if all of them together hold no more than the limit. Two
 * figures are known at once, and neither is too small: the sum of each copy's private memory, in which
 * pages that copies share count in each, and the anonymous memory of the control group, which has each
 * page once, those of the worker and of replaced copies too. Where both are above the limit, a child
 * takes the exact figure: walking the pages of all processes takes milliseconds.
 *
 * A copy can be a process of the guest that runs and grows. The control group, or memory-watch.c, counts
 * it in any case, against a limit that is never above twice
 * s->limit and the reserve.
 */
#include "supervisor/monitor/template/sandbox-held.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "supervisor/monitor/process/process-memory.h"

enum { EXACT_TIMEOUT_MS = 2000 };

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
uint64_t sandbox_held_at_most(const struct sandbox *s)
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

        (void)fds;
        snprintf(path, sizeof(path), "/proc/%d/root/proc", (int)s->pid);
        _cleanup_close_ int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc >= 0)
                held = process_memory_held(proc, is_held, s);
        memcpy(reply, &held, sizeof(held));
        return 0;
}

int sandbox_ask_held(struct sandbox *s, child_task_done *done)
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
