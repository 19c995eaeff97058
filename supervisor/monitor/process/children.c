/* Our children, by intent. */
#include "supervisor/monitor/process/children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

struct children {
        pid_t *pids;
        size_t n, allocated;
};

/* Enough for the pids of every session, server and helper that the limits allow. */
enum { LIST_SIZE_MAX = 1024 * 1024 };

int children_new(struct children **ret, struct error *err)
{
        struct children *c = calloc(1, sizeof(*c));
        if (!c)
                return error_errno(err, ENOMEM, "list of children");
        *ret = c;
        return 0;
}

struct children *children_free(struct children *c)
{
        if (c)
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

static int read_list(char **ret, struct error *err)
{
        char path[64];
        size_t length;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        return fd_read_whole(fd, LIST_SIZE_MAX, ret, &length, err);
}

/* Returns how many there were. The living are left alone with WNOHANG, and killed without. */
static int reap_unknown(struct children *c, int options)
{
        _cleanup_free_ char *list = NULL;
        struct error error = {};
        int reaped = 0;

        int r = read_list(&list, &error);
        if (r < 0)
                return r;
        for (char *p = list, *end;; p = end) {
                pid_t pid = (pid_t)strtol(p, &end, 10);
                if (end == p)
                        break;
                if (find(c, pid) >= 0)
                        continue;
                /* It is our child and not reaped, so that the pid is still its own. */
                if (!(options & WNOHANG))
                        kill(pid, SIGKILL);
                if (waitpid(pid, NULL, options) != pid)
                        continue;
                if (!(options & WNOHANG))
                        log_warning("killed process %d, which the monitor did not ask for",
                                    (int)pid);
                reaped++;
        }
        return reaped;
}

int children_sweep(struct children *c)
{
        return reap_unknown(c, 0);
}

int children_bury(struct children *c)
{
        return reap_unknown(c, WNOHANG);
}
