/*
 * The descendants of this process.
 *
 * Theory of operation. One pass over /proc reads the parent of every process; then the descendants
 * are marked. (/proc/PID/task/TID/children is shorter, but needs CONFIG_PROC_CHILDREN and misses
 * entries while tasks exit.) A pass is not a snapshot: callers repeat it until no child is left. A
 * process is signalled through a pidfd, whose parent is checked again after opening, so that a
 * reused pid is not hit.
 */
#include "supervisor/monitor/upstream/process-tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* Passes of SIGSTOP before the kill, a millisecond apart. */
enum { STOP_PASSES = 20 };

struct process {
        pid_t pid, parent;
        char state;
        bool below; /* a descendant of ours */
};

struct process_list {
        struct process *items;
        size_t count, allocated;
};

static int read_process(int proc_fd, const char *pid, struct process *ret)
{
        char path[32], line[512];

        snprintf(path, sizeof(path), "%.16s/stat", pid);
        _cleanup_close_ int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ssize_t n = fd_read_full(fd, line, sizeof(line) - 1);
        if (n <= 0)
                return -ESRCH;
        line[n] = '\0';
        /* The name is in parentheses and may contain any byte: the last parenthesis ends it. */
        const char *rest = strrchr(line, ')');
        int parent;
        if (!rest || sscanf(rest, ") %c %d", &ret->state, &parent) != 2)
                return -EINVAL;
        ret->pid = atoi(pid);
        ret->parent = parent;
        ret->below = false;
        return 0;
}

static int list_append(struct process_list *list, const struct process *item)
{
        if (list->count == list->allocated) {
                size_t room = list->allocated ? list->allocated * 2 : 256;
                struct process *more = reallocarray(list->items, room, sizeof(*more));
                if (!more)
                        return -ENOMEM;
                list->items = more;
                list->allocated = room;
        }
        list->items[list->count++] = *item;
        return 0;
}

static void list_done(struct process_list *list)
{
        free(list->items);
}

static int compare_pids(const void *a, const void *b)
{
        const struct process *left = a, *right = b;

        return (left->pid > right->pid) - (left->pid < right->pid);
}

static bool is_below(const struct process_list *list, pid_t pid)
{
        struct process key = {.pid = pid};
        const struct process *found = bsearch(&key, list->items, list->count, sizeof(key),
                                              compare_pids);

        return found && found->below;
}

/* Repeats until nothing changes: our children, then their children, and so on. */
static void mark_descendants(struct process_list *list)
{
        pid_t self = getpid();
        bool changed = list->count > 0;

        if (changed)
                qsort(list->items, list->count, sizeof(list->items[0]), compare_pids);
        while (changed) {
                changed = false;
                for (size_t i = 0; i < list->count; i++) {
                        struct process *p = &list->items[i];
                        if (p->below || (p->parent != self && !is_below(list, p->parent)))
                                continue;
                        p->below = changed = true;
                }
        }
}

static int list_processes(DIR *proc, struct process_list *ret)
{
        struct dirent *entry;

        rewinddir(proc);
        ret->count = 0;
        while ((entry = readdir(proc))) {
                struct process p;
                if (!isdigit((unsigned char)entry->d_name[0]) ||
                    read_process(dirfd(proc), entry->d_name, &p) < 0)
                        continue;
                int r = list_append(ret, &p);
                if (r < 0)
                        return r;
        }
        mark_descendants(ret);
        return 0;
}

static void send_signal(int proc_fd, const struct process *p, int signal)
{
        _cleanup_close_ int fd = pidfd_open(p->pid, 0);
        struct process now;
        char pid[16];

        if (fd < 0)
                return;
        snprintf(pid, sizeof(pid), "%d", p->pid);
        if (read_process(proc_fd, pid, &now) < 0)
                return;
        if (now.parent == p->parent || now.parent == getpid())
                pidfd_send_signal(fd, signal, NULL, 0);
}

static void close_dir(DIR **dir)
{
        if (*dir)
                closedir(*dir);
}

static bool is_still(const struct process *p)
{
        return strchr("TtZX", p->state) != NULL;
}

/* Returns how many running processes were signalled. */
static size_t signal_descendants(DIR *proc, struct process_list *list, int signal)
{
        size_t running = 0;

        if (list_processes(proc, list) < 0)
                return 0;
        for (size_t i = 0; i < list->count; i++) {
                const struct process *p = &list->items[i];
                if (!p->below || (signal == SIGSTOP && is_still(p)))
                        continue;
                running += !is_still(p);
                send_signal(dirfd(proc), p, signal);
                if (signal == SIGTERM && is_still(p))
                        send_signal(dirfd(proc), p, SIGCONT);
        }
        return running;
}

static void nap(void)
{
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void process_tree_terminate(void)
{
        _cleanup_(list_done) struct process_list list = {0};
        _cleanup_(close_dir) DIR *proc = opendir("/proc");

        if (proc)
                signal_descendants(proc, &list, SIGTERM);
}

void process_tree_kill(void)
{
        _cleanup_(list_done) struct process_list list = {0};
        _cleanup_(close_dir) DIR *proc = opendir("/proc");

        if (!proc)
                return;
        for (int pass = 0; pass < STOP_PASSES; pass++) {
                if (signal_descendants(proc, &list, SIGSTOP) == 0)
                        break;
                nap();
        }
        signal_descendants(proc, &list, SIGKILL);
}
