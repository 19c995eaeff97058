/* Gives the host the memory of sandboxes that have been frozen. */
#include "supervisor/monitor/cgroup/reclaim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/process/child.h"

struct reclaimer {
        struct event_base *base;
        struct children *children;
        TAILQ_HEAD(, reclaim) waiting;
        unsigned int n_running;
};

struct reclaim {
        TAILQ_ENTRY(reclaim) link; /* where waits */
        bool waits;
        struct reclaimer *owner;
        struct cgroup *cgroup;
        struct event *timer;
        pid_t pid; /* of the child; 0: there is none */
        int pidfd;
        struct event *end;
};

static void bury(struct reclaim *r)
{
        waitpid(r->pid, NULL, 0);
        children_remove(r->owner->children, r->pid);
        r->owner->n_running--;
        r->pid = 0;
        if (r->end)
                event_free(take_ptr(r->end));
        cleanup_close(&r->pidfd);
}

static void work(int fd, uint64_t bytes, pid_t parent)
{
        char text[24];

        child_reset_signals();
        child_hide("reclaim");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        child_close_all_but(&fd, 1);
        /* Its default action is the deadline. */
        alarm(RECLAIM_SECONDS);
        snprintf(text, sizeof(text), "%" PRIu64, bytes);
        /* EAGAIN: that was all it could take. */
        (void)fd_write_all(fd, text, strlen(text));
        _exit(0);
}

static void go_on(struct reclaimer *owner);

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct reclaim *r = data;

        (void)fd;
        (void)what;
        bury(r);
        go_on(r->owner);
}

static void watch(struct reclaim *r)
{
        r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
        r->end = r->pidfd < 0 ? NULL : event_new(r->owner->base, r->pidfd, EV_READ, on_end, r);
        if (children_add(r->owner->children, r->pid) == 0 && r->end && event_add(r->end, NULL) == 0)
                return;
        kill(r->pid, SIGKILL);
        bury(r);
}

static void start(struct reclaim *r)
{
        _cleanup_close_ int fd = -1;
        pid_t self = getpid();
        uint64_t bytes = 0;

        if (cgroup_open_reclaim(r->cgroup, &fd, &bytes) < 0 || bytes == 0)
                return;
        pid_t pid = fork();
        if (pid == 0)
                work(fd, bytes, self);
        if (pid < 0)
                return;
        r->pid = pid;
        r->owner->n_running++;
        watch(r);
}

static void leave_line(struct reclaim *r)
{
        if (r->waits)
                TAILQ_REMOVE(&r->owner->waiting, r, link);
        r->waits = false;
}

static void go_on(struct reclaimer *owner)
{
        struct reclaim *r;

        while (owner->n_running < RECLAIM_MOST && (r = TAILQ_FIRST(&owner->waiting))) {
                leave_line(r);
                start(r);
        }
}

static void on_timer(evutil_socket_t unused, short what, void *data)
{
        struct reclaim *r = data;

        (void)unused;
        (void)what;
        /* One that was stopped may not have ended yet. */
        if (r->pid > 0 || r->waits)
                return;
        TAILQ_INSERT_TAIL(&r->owner->waiting, r, link);
        r->waits = true;
        go_on(r->owner);
}

struct reclaimer *reclaimer_new(struct event_base *base, struct children *children)
{
        struct reclaimer *owner = calloc(1, sizeof(*owner));

        if (!owner)
                return NULL;
        *owner = (struct reclaimer){.base = base, .children = children};
        TAILQ_INIT(&owner->waiting);
        return owner;
}

struct reclaimer *reclaimer_free(struct reclaimer *owner)
{
        free(owner);
        return NULL;
}

struct reclaim *reclaim_new(struct reclaimer *owner, struct cgroup *cgroup)
{
        struct reclaim *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        *r = (struct reclaim){.owner = owner, .cgroup = cgroup, .pidfd = -1};
        r->timer = evtimer_new(owner->base, on_timer, r);
        return r->timer ? r : reclaim_free(r);
}

struct reclaim *reclaim_free(struct reclaim *r)
{
        if (!r)
                return NULL;
        if (r->timer)
                event_free(r->timer);
        leave_line(r);
        if (r->pid > 0) {
                kill(r->pid, SIGKILL);
                bury(r);
                go_on(r->owner);
        }
        free(r);
        return NULL;
}

void reclaim_begin(struct reclaim *r)
{
        evtimer_add(r->timer, &(struct timeval){.tv_usec = RECLAIM_AFTER_MS * 1000});
}

void reclaim_stop(struct reclaim *r)
{
        evtimer_del(r->timer);
        leave_line(r);
        if (r->pid > 0)
                kill(r->pid, SIGKILL);
}
