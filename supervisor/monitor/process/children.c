/* The children that the monitor asked for. */
#include "supervisor/monitor/process/children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mount.h"
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
        int list;    /* the kernel's list of our children */
        pid_t *pids; /* in ascending order */
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

        int r = mount_check_proc(err);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? error_errno(err, errno, "open %s", path) : fd;
}

/* Returns the place of the first pid that is not smaller. */
static size_t place_of(const struct children *c, pid_t pid)
{
        size_t from = 0, to = c->n;

        while (from < to) {
                size_t middle = from + (to - from) / 2;
                if (c->pids[middle] < pid)
                        from = middle + 1;
                else
                        to = middle;
        }
        return from;
}

static bool is_known(const struct children *c, pid_t pid)
{
        size_t i = place_of(c, pid);

        return i < c->n && c->pids[i] == pid;
}

/* Reads the kernel's list, and returns the number of children that are not known. *ret is to be freed. */
static ssize_t read_unknown(const struct children *c, pid_t **ret, struct error *err)
{
        _cleanup_free_ char *list = NULL;
        _cleanup_free_ pid_t *unknown = NULL;
        size_t length, n = 0;

        if (lseek(c->list, 0, SEEK_SET) < 0)
                return error_errno(err, errno, "list of children");
        int r = fd_read_whole(c->list, LIST_SIZE_MAX, &list, &length, err);
        if (r < 0)
                return r;
        /* A number and what separates it from the next take two bytes or more. */
        unknown = reallocarray(NULL, length / 2 + 1, sizeof(pid_t));
        if (!unknown)
                return error_errno(err, ENOMEM, "list of children");
        char *at = list, *end;
        for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end) {
                if (!is_known(c, (pid_t)pid))
                        unknown[n++] = (pid_t)pid;
        }
        *ret = take_ptr(unknown);
        return (ssize_t)n;
}

static int add_existing(struct children *c, struct error *err)
{
        _cleanup_free_ pid_t *pids = NULL;
        int r = 0;

        ssize_t n = read_unknown(c, &pids, err);
        for (ssize_t i = 0; r >= 0 && i < n; i++) {
                r = children_add(c, pids[i]);
                if (r < 0)
                        error_errno(err, -r, "list of children");
        }
        return n < 0 ? (int)n : r;
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
        size_t i = place_of(c, pid);
        memmove(c->pids + i + 1, c->pids + i, (c->n++ - i) * sizeof(pid_t));
        c->pids[i] = pid;
        forget_seen(c, pid);
        return 0;
}

void children_remove(struct children *c, pid_t pid)
{
        size_t i = place_of(c, pid);

        if (i < c->n && c->pids[i] == pid)
                memmove(c->pids + i, c->pids + i + 1, (--c->n - i) * sizeof(pid_t));
}

int children_is_new(const struct children *c, pid_t pid)
{
        siginfo_t info = {};

        if (pid <= 0 || is_known(c, pid))
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
static int end_unknown(struct children *c, const pid_t *pids, ssize_t n, int options)
{
        bool all = true;
        int unasked = 0;

        for (ssize_t i = 0; i < n; i++) {
                bool spared = !(options & WNOHANG) && may_be_requested(c, pids[i]);
                all = all && !spared;
                if (!spared)
                        unasked += end_one(c, pids[i], options);
        }
        if (all && !(options & WNOHANG))
                c->abandoned = 0;
        return unasked;
}

static int end_some(struct children *c, const pid_t *pids, ssize_t n,
                    bool (*is_of)(const void *data, pid_t pid), const void *data)
{
        int ended = 0;

        for (ssize_t i = 0; i < n; i++) {
                if (!is_of(data, pids[i]))
                        continue;
                child_kill(pids[i]);
                forget_seen(c, pids[i]);
                ended++;
        }
        return ended;
}

int children_kill_some(struct children *c, bool (*is_of)(const void *data, pid_t pid),
                       const void *data)
{
        _cleanup_free_ pid_t *pids = NULL;
        struct error error = {};

        ssize_t n = read_unknown(c, &pids, &error);
        return n < 0 ? (int)n : end_some(c, pids, n, is_of, data);
}

int children_kill_others(struct children *c, bool (*is_of)(const void *data, pid_t pid),
                         const void *data)
{
        _cleanup_free_ pid_t *pids = NULL;
        struct error error = {};

        ssize_t n = read_unknown(c, &pids, &error);
        if (n < 0)
                return (int)n;
        int ended = end_some(c, pids, n, is_of, data);
        /* Those have ended: processes with their pids now are in no list that was read before. */
        if (ended == 0)
                end_unknown(c, pids, n, 0);
        return ended;
}

static int end_all_unknown(struct children *c, int options)
{
        _cleanup_free_ pid_t *pids = NULL;
        struct error error = {};

        ssize_t n = read_unknown(c, &pids, &error);
        return n < 0 ? (int)n : end_unknown(c, pids, n, options);
}

int children_kill_unknown(struct children *c)
{
        return end_all_unknown(c, 0);
}

int children_reap_unknown(struct children *c)
{
        return end_all_unknown(c, WNOHANG);
}
