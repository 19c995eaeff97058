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
                       : 0;
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
 * Unshares the network namespace of the next session while the template is idle: making one takes
 * the kernel as long as the rest of the clone. The template lives in it until the session inherits
 * it. It belongs to the template's user namespace, so that the session has no capability over it;
 * in a loopback profile the session needs one to bring lo up, and makes its own. If this fails, the
 * clone makes the namespace or reports why it cannot.
 */
static void prepare_network(struct session *s)
{
        struct pollfd control = {.fd = TEMPLATE_CONTROL_FD, .events = POLLIN};

        if (!s->template->loopback && !s->has_network && poll(&control, 1, NETWORK_MS) == 0)
                s->has_network = syscall(SYS_unshare, CLONE_NEWNET) == 0;
}

/* Returns 0 in the template, 1 in the worker; negative errno when the template must end. */
static int make(const struct template_hooks *hooks, struct session *s, struct error *err)
{
        int r = lend_id(s->plan.id, err);
        if (r < 0)
                return r;
        hooks->before_fork();
        int made = session_clone(s);
        s->has_network = false;
        if (made == 1) {
                hooks->after_fork_child();
                return 1;
        }
        hooks->after_fork_parent();
        return take_back_id(err);
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
        bool is_idle_work_left = hooks->idle;

        session.template = template_plan();
        int r = prepare(err);
        while (r >= 0) {
                struct template_message message;
                size_t count = SESSION_FD_MAX;

                prepare_network(&session);
                if (is_idle_work_left)
                        is_idle_work_left = do_idle_work(hooks, QUIET_MS);
                ssize_t n = fd_receive(TEMPLATE_CONTROL_FD, &message, sizeof(message), session.fds,
                                       &count, NULL, 0);
                if (n == 0)
                        return 0;
                if (n < 0)
                        return error_errno(err, (int)-n, "receive from the monitor");
                if (n != sizeof(message) || message.kind != SESSION_CREATE ||
                    count != SESSION_FD_COUNT + (message.session.cgroup ? 1U : 0U)) {
                        fd_close_many(session.fds, count);
                        return error_set(err, EPROTO, "an unknown message from the monitor");
                }
                session.plan = message.session;
                r = make(hooks, &session, err);
                if (r == 1) {
                        ret->rpc_fd = session.rpc_fd;
                        ret->release_fd = session.release_fd;
                        ret->listener_fd = session.listener_fd;
                        return 1;
                }
                fd_close_many(session.fds, count);
                if (r >= 0)
                        r = answer(&session, err);
        }
        return r;
}
