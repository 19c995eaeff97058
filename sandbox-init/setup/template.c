/*
 * The template while it makes sessions.
 *
 * Theory of operation. It handles one request at a time: SESSION_CREATE with its descriptors, the
 * clone, SESSION_MADE or SESSION_FAILED. During the clone the template sleeps and the new PID 1 uses
 * the control socket: it sends SESSION_HERE and waits for SESSION_GO. For session k the template
 * first takes k as its effective ids, because the id map that PID 1 writes must name the ids of the
 * process that cloned it. That clears the dumpable flag, which PID 1 shares and needs to open
 * /proc/self/uid_map, so it is set again.
 */
#include "sandbox-init/setup/template.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "rpc/sandbox-messages.h"
#include "sandbox-init/setup/layout.h"
#include "sandbox-init/setup/session.h"

/* How long no message must have come before the template makes the next network namespace, and
 * before it does its idle work: the last session has not sent its first result yet. */
enum { NETWORK_MS = 10, QUIET_MS = 20 };

/* The time between two scans for processes that are ending, and their number. */
enum { END_OTHERS_MS = 1, END_OTHERS_TRIES = 2000 };

const struct template_plan *template_plan(void)
{
        static struct template_plan plan;
        static bool is_read;

        /* Sealed, so that a short read is a bug. An empty plan then mounts nothing. */
        if (!is_read && pread(LAYOUT_PLAN_FD, &plan, sizeof(plan), 0) != sizeof(plan))
                plan = (struct template_plan){};
        is_read = true;
        return &plan;
}

static int last_problem; /* of release_locks_of() */

static void release_locks_of(int fd, const void *unused)
{
        const struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

        syscall(SYS_flock, fd, LOCK_UN);
        fcntl(fd, F_OFD_SETLK, &all); /* fails unless a mount has locks */
        /* A process that closes a file has none of its POSIX locks any more. The filter answers F_SETLK with ENOSYS, but code that
         * has its own listener lets such calls continue. */
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (copy >= 0)
                close(copy);
        else
                last_problem = errno;
}

/* Code of the image may have locked files. The template would keep them locked for as long as it lives, for programs of the host and
 * for sessions of other templates. */
static int release_locks(struct error *err)
{
        last_problem = 0;
        int r = fd_each(release_locks_of, NULL);
        if (r >= 0)
                r = -last_problem;
        return r < 0 ? error_errno(err, -r, "release locks that code of the image has taken") : 0;
}

/* kill(-1) reaches all of the pid namespace but PID 1 and the caller; it fails when there are none.
 * The kernel reaps orphans, whose parent is the stub. A process cloned with CLONE_PARENT stays as a
 * zombie until the monitor reaps it. */
int template_end_others(struct error *err)
{
        int tries = 0;

        while (tries < END_OTHERS_TRIES && syscall(SYS_kill, -1, SIGKILL) == 0) {
                if (syscall(SYS_wait4, -1, NULL, WNOHANG | __WALL, NULL) > 0)
                        continue;
                poll(NULL, 0, END_OTHERS_MS);
                tries++;
        }
        return tries < END_OTHERS_TRIES && errno != ESRCH
                       ? error_errno(err, errno, "end what code of the image has left: kill")
                       : release_locks(err);
}

int template_ready(struct error *err)
{
        struct template_message ready = {.kind = TEMPLATE_READY};

        int r = fd_send(TEMPLATE_CONTROL_FD, &ready, sizeof(ready), NULL, 0, 0);
        return r < 0 ? error_errno(err, -r, "send to the monitor") : 0;
}

void template_failed(const struct error *error)
{
        struct template_message failed = {.kind = TEMPLATE_FAILED, .error = *error};

        fd_send(TEMPLATE_CONTROL_FD, &failed, sizeof(failed), NULL, 0, 0);
}

static int prepare(struct error *err)
{
        for (int fd = TEMPLATE_CONTROL_FD; fd < LAYOUT_FD_END; fd++) {
                int r = fd_set_cloexec(fd, 1);
                if (r < 0)
                        return error_errno(err, -r, "descriptor %d", fd);
        }
        if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
                return error_errno(err, errno, "securebits");
        return 0;
}

/* Raw system calls: libc's functions would signal the other threads, and there are none. */
static int lend_id(uint32_t id, struct error *err)
{
        if (syscall(SYS_setresgid, -1, id, -1) < 0 || syscall(SYS_setresuid, -1, id, -1) < 0)
                return error_errno(err, errno, "take id %u", id);
        if (prctl(PR_SET_DUMPABLE, 1) < 0)
                return error_errno(err, errno, "stay dumpable");
        return 0;
}

static int take_back_id(struct error *err)
{
        if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0)
                return error_errno(err, errno, "take id 0 back");
        return 0;
}

/*
 * Network namespaces. A session inherits that of the template, which enters one before the clone and its own after it: one
 * that the monitor has sent, which was an earlier session's and has no socket (supervisor/monitor/template/networks.h), or
 * a new one. They belong to the template's user namespace, so that no session has a capability over them; in a loopback
 * profile the session needs one to bring lo up, and makes its own. If nothing works, the clone makes the namespace or
 * reports why it cannot. A worker closes these descriptors before it runs code, init by its exec.
 */
struct networks {
        int own;          /* the template's */
        int next;         /* that no session had yet, or -1 */
        bool is_recycled; /* that of the last session was */
};

static int open_network(void)
{
        return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

static int find_own_network(const struct session *s, struct networks *n, struct error *err)
{
        n->own = s->template->loopback ? -1 : open_network();
        return !s->template->loopback && n->own < 0
                       ? error_errno(err, errno, "open the network namespace")
                       : 0;
}

/* Raw system calls: an image may have a libc without these functions. */
static bool enter_network(int fd)
{
        return fd >= 0 && syscall(SYS_setns, fd, CLONE_NEWNET) == 0;
}

static int return_to_own_network(const struct networks *n, struct error *err)
{
        return n->own >= 0 && !enter_network(n->own)
                       ? error_errno(err, errno, "return to its network namespace")
                       : 0;
}

/* While the template is idle, since the kernel takes as long for one as for the rest of the clone. While sessions follow
 * each other so that they get each other's, none is needed. */
static int prepare_network(const struct session *s, struct networks *n, struct error *err)
{
        struct pollfd control = {.fd = TEMPLATE_CONTROL_FD, .events = POLLIN};

        if (s->template->loopback || n->next >= 0 || n->is_recycled ||
            poll(&control, 1, NETWORK_MS) != 0 || syscall(SYS_unshare, CLONE_NEWNET) < 0)
                return 0;
        n->next = open_network();
        return return_to_own_network(n, err);
}

/* given: the monitor's, or -1. */
static void choose_network(struct session *s, struct networks *n, int *given)
{
        if (s->template->loopback)
                return;
        n->is_recycled = enter_network(*given);
        s->has_network = n->is_recycled;
        fd_close_many(given, 1);
        if (!s->has_network) {
                s->has_network = enter_network(n->next);
                fd_close_many(&n->next, 1);
        }
        if (!s->has_network)
                s->has_network = syscall(SYS_unshare, CLONE_NEWNET) == 0;
}

/* Returns 0 in the template, 1 in the worker; negative errno when the template must end. */
static int make(const struct template_hooks *hooks, struct session *s, struct networks *n,
                struct error *err)
{
        int *last = &s->fds[SESSION_FD_COUNT + s->plan.cgroup], none = -1;

        choose_network(s, n, s->plan.network ? last : &none);
        int r = lend_id(s->plan.id, err);
        if (r < 0)
                return r;
        hooks->before_fork();
        int made = session_clone(s);
        if (made == 1) {
                hooks->after_fork_child();
                return 1;
        }
        hooks->after_fork_parent();
        s->has_network = false;
        r = take_back_id(err);
        return r < 0 ? r : return_to_own_network(n, err);
}

static int answer(const struct session *s, struct error *err)
{
        struct template_message message = {.kind = SESSION_MADE};

        if (error_is_set(&s->error)) {
                message.kind = SESSION_FAILED;
                message.error = s->error;
        }
        int r = fd_send(TEMPLATE_CONTROL_FD, &message, sizeof(message), NULL, 0, 0);
        return r < 0 ? error_errno(err, -r, "answer the monitor") : 0;
}

/* Calls idle() until a message comes or there is no more to do. The first wait is longer: the
 * session that the template was started for, and its first cell, need the processor now. */
static bool do_idle_work(const struct template_hooks *hooks, int wait_ms)
{
        struct pollfd control = {.fd = TEMPLATE_CONTROL_FD, .events = POLLIN};
        bool is_more = true;

        while (is_more && poll(&control, 1, wait_ms) == 0) {
                is_more = hooks->idle();
                wait_ms = 0;
        }
        return is_more;
}

int template_serve(const struct template_hooks *hooks, struct template_session *ret,
                   struct error *err)
{
        struct session session = {};
        struct networks networks = {.own = -1, .next = -1};
        bool is_idle_work_left = hooks->idle;

        session.template = template_plan();
        int r = prepare(err);
        if (r >= 0)
                r = find_own_network(&session, &networks, err);
        while (r >= 0) {
                struct template_message message;
                size_t count = SESSION_FD_MAX;

                r = prepare_network(&session, &networks, err);
                if (r < 0)
                        return r;
                if (is_idle_work_left) {
                        is_idle_work_left = do_idle_work(hooks, QUIET_MS);
                        r = release_locks(err);
                        if (r < 0)
                                return r;
                }
                ssize_t n = fd_receive(TEMPLATE_CONTROL_FD, &message, sizeof(message), session.fds,
                                       &count, NULL, 0);
                if (n == 0)
                        return 0;
                if (n < 0)
                        return error_errno(err, (int)-n, "receive from the monitor");
                if (n != sizeof(message) || message.kind != SESSION_CREATE ||
                    message.session.cgroup > 1 || message.session.network > 1 ||
                    count != SESSION_FD_COUNT + message.session.cgroup + message.session.network) {
                        fd_close_many(session.fds, count);
                        return error_set(err, EPROTO, "an unknown message from the monitor");
                }
                session.plan = message.session;
                r = make(hooks, &session, &networks, err);
                if (r == 1) {
                        ret->rpc_fd = session.rpc_fd;
                        ret->release_fd = session.release_fd;
                        ret->listener_fd = session.listener_fd;
                        ret->limits = session.plan.limits;
                        ret->rlimits = session.plan.rlimits;
                        return 1;
                }
                fd_close_many(session.fds, count);
                if (r >= 0)
                        r = answer(&session, err);
                /* Of functions that code has registered for forks. */
                if (r >= 0)
                        r = release_locks(err);
        }
        return r;
}
