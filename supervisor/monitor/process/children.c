/* The children that the monitor asked for. */
#include "supervisor/monitor/process/children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/process/child.h"

enum {
        LIST_SIZE_MAX = 1024 * 1024, /* bytes: the pids of all sessions, servers and helpers */
        REQUESTS_MAX = 256,          /* open at once, one for each template */
        SEEN_MAX = 64,
};

/* A child that is not known, and the newest request when it was first seen. */
struct seen {
        pid_t pid;
        uint64_t request;
};

struct children {
        int list; /* the kernel's list of our children */
        pid_t *pids;
        size_t n, allocated;
        uint64_t last_request;
        uint64_t open[REQUESTS_MAX]; /* in no order */
        size_t n_open;
        struct seen seen[SEEN_MAX];
        size_t n_seen;
        unsigned int abandoned; /* requests closed without a child */
};

static void forget_seen(struct children *c, pid_t pid)
{
        for (size_t i = 0; i < c->n_seen; i++) {
                if (c->seen[i].pid == pid)
                        c->seen[i] = c->seen[--c->n_seen];
        }
}

static int open_list(struct error *err)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? error_errno(err, errno, "open %s", path) : fd;
}

static int read_list(const struct children *c, char **ret, struct error *err)
{
        size_t length;

        if (lseek(c->list, 0, SEEK_SET) < 0)
                return error_errno(err, errno, "list of children");
        return fd_read_whole(c->list, LIST_SIZE_MAX, ret, &length, err);
}

/* The next pid of a list; 0 at its end. */
static pid_t next_pid(const char **list)
{
        char *end;
        long pid = strtol(*list, &end, 10);

        if (end == *list)
                return 0;
        *list = end;
        return (pid_t)pid;
}

static int add_existing(struct children *c, struct error *err)
{
        _cleanup_free_ char *list = NULL;
        pid_t pid;

        int r = read_list(c, &list, err);
        for (const char *p = list; r >= 0 && (pid = next_pid(&p)) > 0;) {
                r = children_add(c, pid);
                if (r < 0)
                        error_errno(err, -r, "list of children");
        }
        return r;
}

int children_new(struct children **ret, struct error *err)
{
        struct children *c = calloc(1, sizeof(*c));
        if (!c)
                return error_errno(err, ENOMEM, "list of children");
        c->list = open_list(err);
        int r = c->list < 0 ? c->list : add_existing(c, err);
        if (r < 0) {
                children_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

struct children *children_free(struct children *c)
{
        if (!c)
                return NULL;
        fd_close_many(&c->list, 1);
        free(c->pids);
        free(c);
        return NULL;
}

int children_add(struct children *c, pid_t pid)
{
        if (c->n == c->allocated) {
                size_t size = c->allocated ? c->allocated * 2 : 32;
                pid_t *pids = reallocarray(c->pids, size, sizeof(pid_t));
                if (!pids)
                        return -ENOMEM;
                c->pids = pids;
                c->allocated = size;
        }
        c->pids[c->n++] = pid;
        forget_seen(c, pid);
        return 0;
}

static ssize_t find(const struct children *c, pid_t pid)
{
        for (size_t i = 0; i < c->n; i++) {
                if (c->pids[i] == pid)
                        return (ssize_t)i;
        }
        return -1;
}

void children_remove(struct children *c, pid_t pid)
{
        ssize_t i = find(c, pid);
        if (i >= 0)
                c->pids[i] = c->pids[--c->n];
}

int children_is_new(const struct children *c, pid_t pid)
{
        siginfo_t info = {};

        if (pid <= 0 || find(c, pid) >= 0)
                return 0;
        /* Only a child of ours that lives gives success without a pid here. */
        return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == 0;
}

uint64_t children_request(struct children *c)
{
        c->last_request++;
        /* If the array is full, the child of this request may be killed; the session is then
         * created again. */
        if (c->n_open < REQUESTS_MAX)
                c->open[c->n_open++] = c->last_request;
        return c->last_request;
}

void children_request_close(struct children *c, uint64_t *request, bool has_come)
{
        if (*request == 0)
                return;
        for (size_t i = 0; i < c->n_open; i++) {
                if (c->open[i] == *request)
                        c->open[i] = c->open[--c->n_open];
        }
        c->abandoned += !has_come;
        *request = 0;
}

static uint64_t oldest_open(const struct children *c)
{
        uint64_t oldest = UINT64_MAX;

        for (size_t i = 0; i < c->n_open; i++)
                oldest = c->open[i] < oldest ? c->open[i] : oldest;
        return oldest;
}

/* Whether a request that was open when this child was first seen is open still. */
static bool may_be_requested(struct children *c, pid_t pid)
{
        if (c->n_open == 0)
                return false;
        for (size_t i = 0; i < c->n_seen; i++) {
                if (c->seen[i].pid == pid)
                        return oldest_open(c) <= c->seen[i].request;
        }
        if (c->n_seen == SEEN_MAX)
                return false;
        c->seen[c->n_seen++] = (struct seen){pid, c->last_request};
        return true;
}

/* Whether the child of a request that was closed without one can account for this child. */
static bool take_abandoned(struct children *c)
{
        if (c->abandoned == 0)
                return false;
        c->abandoned--;
        return true;
}

/* Whether it was never requested, and has ended now. With WNOHANG it is not killed. */
static bool end_one(struct children *c, pid_t pid, int options)
{
        /* It has not been reaped, so that its pid cannot be another process. */
        if (!(options & WNOHANG))
                child_kill(pid);
        else if (waitpid(pid, NULL, WNOHANG) != pid)
                return false;
        forget_seen(c, pid);
        if (take_abandoned(c))
                return false;
        if (!(options & WNOHANG))
                log_warning("killed process %d, which the monitor did not ask for", (int)pid);
        return true;
}

/* Returns how many were never requested. With WNOHANG none is killed. */
static int end_unknown(struct children *c, const char *list, int options)
{
        bool all = true;
        int unasked = 0;
        pid_t pid;

        for (const char *p = list; (pid = next_pid(&p)) > 0;) {
                if (find(c, pid) >= 0)
                        continue;
                bool spared = !(options & WNOHANG) && may_be_requested(c, pid);
                all = all && !spared;
                if (!spared)
                        unasked += end_one(c, pid, options);
        }
        if (all && !(options & WNOHANG))
                c->abandoned = 0;
        return unasked;
}

static int end_some(struct children *c, const char *list,
                    bool (*is_of)(const void *data, pid_t pid), const void *data)
{
        int n = 0;
        pid_t pid;

        for (const char *p = list; (pid = next_pid(&p)) > 0;) {
                if (find(c, pid) >= 0 || !is_of(data, pid))
                        continue;
                child_kill(pid);
                forget_seen(c, pid);
                n++;
        }
        return n;
}

int children_kill_some(struct children *c, bool (*is_of)(const void *data, pid_t pid),
                       const void *data)
{
        _cleanup_free_ char *list = NULL;
        struct error error = {};

        int r = read_list(c, &list, &error);
        return r < 0 ? r : end_some(c, list, is_of, data);
}

int children_kill_others(struct children *c, bool (*is_of)(const void *data, pid_t pid),
                         const void *data)
{
        _cleanup_free_ char *list = NULL;
        struct error error = {};

        int r = read_list(c, &list, &error);
        if (r < 0)
                return r;
        int n = end_some(c, list, is_of, data);
        /* Those have ended: processes with their pids now are in no list that was read before. */
        if (n == 0)
                end_unknown(c, list, 0);
        return n;
}

static int end_all_unknown(struct children *c, int options)
{
        _cleanup_free_ char *list = NULL;
        struct error error = {};

        int r = read_list(c, &list, &error);
        return r < 0 ? r : end_unknown(c, list, options);
}

int children_kill_unknown(struct children *c)
{
        return end_all_unknown(c, 0);
}

int children_reap_unknown(struct children *c)
{
        return end_all_unknown(c, WNOHANG);
}
