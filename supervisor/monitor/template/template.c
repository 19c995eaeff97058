/*
 * A template in the monitor.
 *
 * Theory of operation. The template makes one session at a time:
 *
 *     state      message           does                                          next
 *     starting   TEMPLATE_READY    -                                             idle
 *     starting   TEMPLATE_FAILED   fails all sessions in the queue                ended
 *     idle       -                 sends SESSION_CREATE for the first in queue    asked
 *     asked      SESSION_HERE      verifies the pid, control group, SESSION_GO   here
 *     asked|here SESSION_FAILED    calls made() with the error                   idle
 *     here       SESSION_MADE      kills unknown children, calls made()           idle
 *
 * Any other message, the end of the socket or a passed deadline ends the template: it is killed, and
 * the next request starts a new one with new namespaces. The old namespaces end with their last
 * session.
 */
#include "supervisor/monitor/template/template.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "rpc/monitor-messages.h"
#include "supervisor/monitor/template/stub.h"
#include "supervisor/monitor/template/template-launch.h"

enum template_state {
        TEMPLATE_STARTING,
        TEMPLATE_IDLE,
        TEMPLATE_ASKED,
        TEMPLATE_HERE,
        TEMPLATE_ENDED,
        TEMPLATE_STATE_MAX,
};

static const char *const state_names[] = {
        [TEMPLATE_STARTING] = "starting", [TEMPLATE_IDLE] = "idle",   [TEMPLATE_ASKED] = "asked",
        [TEMPLATE_HERE] = "here",         [TEMPLATE_ENDED] = "ended",
};
static_assert(ARRAY_SIZE(state_names) == TEMPLATE_STATE_MAX, "one name per state");

/* Imports of a large site-packages take seconds; making a session takes milliseconds. */
enum { START_SECONDS = 60, SESSION_SECONDS = 10, LINE_MAX_LENGTH = 1024 };

struct waiting {
        struct sandbox *sandbox;
        struct limits limits;
        bool rlimits;
};

struct template
{
        const struct template_host *host;
        enum template_state state;
        bool try_again; /* another template may make its sessions */
        struct stub *stub;
        struct cgroup *
                cgroup; /* version 2: a sibling of its sessions' groups, so that it can clone into them */
        uint64_t request; /* of children_request(), until the session is here; or 0 */
        bool lends;       /* sessions are cloned into their groups: not refused so far */
        pid_t pid;
        int control, messages; /* messages: its standard error */
        struct event *readable, *messages_event, *deadline;
        struct waiting line[LINE_MAX_LENGTH]; /* the first is being made */
        size_t n_line;
        struct error error;
};

static void set_deadline(struct template *t, int seconds)
{
        struct timeval after = {.tv_sec = seconds};

        event_add(t->deadline, &after);
}

static void drop_first(struct template *t)
{
        memmove(t->line, t->line + 1, --t->n_line * sizeof(t->line[0]));
}

static void finish_first(struct template *t, const struct error *error)
{
        struct sandbox *sandbox = t->line[0].sandbox;

        drop_first(t);
        t->host->made(t->host->data, sandbox, error);
}

/*
 * The template has failed: made() is called for all sessions in the queue. With ESTALE, the owner may
 * ask another template: no session in the queue has run any code. The owner counts how often, since a
 * request may be the reason. A template that failed at its start passes its own error on, unless it
 * was killed: then the next one may work. The owner frees it.
 */
static void give_up(struct template *t)
{
        if (t->state == TEMPLATE_ENDED)
                return;
        t->state = TEMPLATE_ENDED;
        struct error passed_on = t->error;
        if (t->try_again)
                passed_on.code = ESTALE;
        event_del(t->readable);
        event_del(t->deadline);
        while (t->n_line > 0)
                finish_first(t, &passed_on);
        t->host->ended(t->host->data, &t->error);
}

static void next(struct template *t)
{
        struct template_message create = {.kind = SESSION_CREATE};

        if (t->state != TEMPLATE_IDLE || t->n_line == 0)
                return;
        struct waiting *first = &t->line[0];
        create.session = (struct session_plan){.id = sandbox_id(first->sandbox),
                                               .rlimits = first->rlimits,
                                               .limits = first->limits};
        if (t->lends)
                t->lends = sandbox_lend_cgroup(first->sandbox, t->host->ids->first,
                                               t->host->ids->group);
        create.session.cgroup = t->lends;
        int r = fd_send(t->control, &create, sizeof(create), sandbox_inner_fds(first->sandbox),
                        SESSION_FD_COUNT + create.session.cgroup, 0);
        sandbox_close_inner(first->sandbox);
        if (r < 0) {
                error_errno(&t->error, -r, "ask the template for a session");
                give_up(t);
                return;
        }
        t->request = children_request(t->host->children);
        t->state = TEMPLATE_ASKED;
        set_deadline(t, SESSION_SECONDS);
}

static int handle_here(struct template *t, pid_t pid)
{
        struct template_message go = {.kind = SESSION_GO};

        int r = sandbox_adopt(t->line[0].sandbox, pid, t->stub, &t->error);
        if (r < 0)
                return r;
        children_request_close(t->host->children, &t->request, true);
        /* A refused CLONE_INTO_CGROUP is not retried. */
        t->lends = t->lends && sandbox_is_placed(t->line[0].sandbox);
        r = fd_send(t->control, &go, sizeof(go), NULL, 0, 0);
        if (r < 0)
                return error_errno(&t->error, -r, "let the session go on");
        t->state = TEMPLATE_HERE;
        return 0;
}

static int handle_session_end(struct template *t, const struct error *error)
{
        event_del(t->deadline);
        t->state = TEMPLATE_IDLE;
        children_request_close(t->host->children, &t->request, false);
        int r = children_kill_unknown(t->host->children);
        if (r > 0)
                return error_set(&t->error, EPROTO,
                                 "the template made processes that were not requested");
        finish_first(t, error);
        next(t);
        return 0;
}

/* Whether this machine refuses a step for good, or lacks something at the moment. */
static void mark_refusal(struct error *error)
{
        static const int passing[] = {EAGAIN, ENOMEM, EMFILE, ENFILE, ECANCELED, EINTR};

        for (size_t i = 0; i < ARRAY_SIZE(passing); i++)
                if (error->code == passing[i])
                        return;
        error->code = MONITOR_CODE_NO_SANDBOX;
}

static int handle(struct template *t, struct template_message *message, pid_t pid)
{
        if (message->kind == TEMPLATE_FAILED || message->kind == SESSION_FAILED)
                error_sanitize(&message->error);

        switch (message->kind) {
        case TEMPLATE_READY:
                if (t->state != TEMPLATE_STARTING)
                        break;
                event_del(t->deadline);
                t->state = TEMPLATE_IDLE;
                t->try_again = true;
                next(t);
                return 0;
        case TEMPLATE_FAILED:
                if (t->state != TEMPLATE_STARTING)
                        break;
                t->error = message->error;
                mark_refusal(&t->error);
                return -EIO;
        case SESSION_HERE:
                if (t->state != TEMPLATE_ASKED)
                        break;
                return handle_here(t, pid);
        case SESSION_MADE:
                if (t->state != TEMPLATE_HERE)
                        break;
                return handle_session_end(t, NULL);
        case SESSION_FAILED:
                if (t->state != TEMPLATE_ASKED && t->state != TEMPLATE_HERE)
                        break;
                mark_refusal(&message->error);
                return handle_session_end(t, &message->error);
        default:
                break;
        }
        return error_set(&t->error, EPROTO, "the template sent message %u while %s", message->kind,
                         state_names[t->state]);
}

/* Whether SIGKILL ended it: from outside, or by the OOM killer. A process that has closed its socket
 * is killed here; if it was exiting already, it keeps its exit status. */
static bool was_killed(const struct template *t)
{
        siginfo_t how = {};

        kill(t->pid, SIGKILL);
        return waitid(P_PID, (id_t)t->pid, &how, WEXITED | WNOWAIT) == 0 &&
               how.si_code == CLD_KILLED && how.si_status == SIGKILL;
}

static int handle_end(struct template *t)
{
        bool killed = was_killed(t);

        t->try_again = t->try_again || killed;
        if (t->state == TEMPLATE_STARTING && !killed)
                return error_set(
                        &t->error, EPIPE,
                        "the template ended while it started: the log has the messages of CPython");
        return error_set(&t->error, EPIPE, "the template %s while %s",
                         killed ? "was killed" : "ended unexpectedly", state_names[t->state]);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct template *t = data;
        struct template_message message;
        struct ucred sender;

        (void)what;
        ssize_t n = fd_receive(fd, &message, sizeof(message), NULL, NULL, &sender, MSG_DONTWAIT);
        /* It ended without having read all messages. The kernel tells that before it gives out what
         * the template sent last. */
        if (n == -ECONNRESET)
                n = fd_receive(fd, &message, sizeof(message), NULL, NULL, &sender, MSG_DONTWAIT);
        if (n == -EAGAIN)
                return;
        int r;
        if (n == sizeof(message))
                r = handle(t, &message, sender.pid);
        else if (n == 0 || n == -ECONNRESET)
                r = handle_end(t);
        else
                r = error_set(&t->error, EPROTO, "the template sent an invalid message");
        if (r < 0)
                give_up(t);
}

/* Warnings of site-packages, errors of CPython. The text is untrusted: the log escapes control
 * characters. */
static void on_messages(evutil_socket_t fd, short what, void *data)
{
        struct template *t = data;
        char text[1024];

        (void)what;
        ssize_t n = read(fd, text, sizeof(text) - 1);
        if (n <= 0) {
                event_del(t->messages_event);
                return;
        }
        while (n > 0 && text[n - 1] == '\n')
                n--;
        text[n] = '\0';
        log_info("template: %s", text);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct template *t = data;

        (void)fd;
        (void)what;
        error_set(&t->error, ETIMEDOUT, "the template did not answer in time while %s",
                  state_names[t->state]);
        give_up(t);
}

static int plan_mounts(const struct template_parts *parts, struct template_plan *plan, int *fds,
                       struct error *err)
{
        const struct config_profile *profile = parts->profile;

        static_assert(TEMPLATE_MOUNTS_MAX >= (int)CONFIG_MOUNTS_MAX, "room for all mounts");
        for (size_t i = 0; i < profile->n_mounts; i++) {
                const struct config_mount *mount = &profile->mounts[i];
                struct template_mount *planned = &plan->mounts[i];
                if ((size_t)snprintf(planned->target, sizeof(planned->target), "%s",
                                     mount->target) >= sizeof(planned->target))
                        return error_errno(err, ENAMETOOLONG, "mount on %s", mount->target);
                planned->writable = mount->writable;
                fds[i] = parts->sources[i];
        }
        plan->n_mounts = (uint32_t)profile->n_mounts;
        return 0;
}

static int plan_profile(const struct template_parts *parts, struct template_plan *plan, int *fds,
                        struct error *err)
{
        const struct config_profile *profile = parts->profile;
        size_t n = 0;

        if (!profile)
                return 0;
        for (char *const *name = profile->preload; name && *name; name++) {
                n += (size_t)snprintf(plan->preload + n, sizeof(plan->preload) - n, "%s\n", *name);
                if (n >= sizeof(plan->preload))
                        return error_errno(err, E2BIG, "the names in preload");
        }
        plan->loopback = profile->network == CONFIG_NETWORK_LOOPBACK;
        return plan_mounts(parts, plan, fds, err);
}

static int send_plan(struct template *t, const struct template_parts *parts, struct error *err)
{
        struct template_message message = {.kind = TEMPLATE_PLAN};
        int fds[TEMPLATE_FD_COUNT + TEMPLATE_MOUNTS_MAX] = {
                [TEMPLATE_FD_IMAGE] = parts->image_fd,
                [TEMPLATE_FD_WORKER] = parts->worker_fd,
                [TEMPLATE_FD_INIT] = parts->init_fd,
                [TEMPLATE_FD_TEMPLATE_FILTER] = parts->template_filter_fd,
                [TEMPLATE_FD_WORKER_FILTER] = parts->worker_filter_fd,
                [TEMPLATE_FD_INIT_FILTER] = parts->init_filter_fd,
        };

        message.plan.mode = t->host->ids->mode;
        message.plan.link = parts->image->link;
        message.plan.rlimits = parts->rlimits;
        static_assert(sizeof(message.plan.python) == sizeof(parts->image->python), "same size");
        memcpy(message.plan.python, parts->image->python, sizeof(message.plan.python));
        memcpy(message.plan.libpython, parts->image->libpython, sizeof(message.plan.libpython));
        int r = plan_profile(parts, &message.plan, fds + TEMPLATE_FD_COUNT, err);
        if (r < 0)
                return r;
        r = fd_send(t->control, &message, sizeof(message), fds,
                    TEMPLATE_FD_COUNT + message.plan.n_mounts, 0);
        return r < 0 ? error_errno(err, -r, "send the template its plan") : 0;
}

static int watch(struct template *t, struct error *err)
{
        t->readable = event_new(t->host->base, t->control, EV_READ | EV_PERSIST, on_readable, t);
        t->messages_event = event_new(t->host->base, t->messages, EV_READ | EV_PERSIST, on_messages,
                                      t);
        t->deadline = evtimer_new(t->host->base, on_deadline, t);
        if (!t->readable || !t->messages_event || !t->deadline ||
            event_add(t->readable, NULL) < 0 || event_add(t->messages_event, NULL) < 0)
                return error_errno(err, ENOMEM, "watch the template");
        set_deadline(t, START_SECONDS);
        return 0;
}

/* Without a group of its own, the template's sessions are moved into their groups. */
static void make_group(struct template *t)
{
        struct cgroups *cgroups = *t->host->cgroups;
        struct error ignored = {};

        if (cgroups_version(cgroups) != CGROUP_V2 ||
            cgroup_new(cgroups, 0, NULL, &t->cgroup, &ignored) < 0)
                return;
        cgroup_prefer(t->cgroup);
}

/* The child that joins the namespaces reports on the control socket. */
static int take_launch_error(struct template *t, struct error *err)
{
        struct template_message message = {};

        if (fd_receive(t->control, &message, sizeof(message), NULL, NULL, NULL, MSG_DONTWAIT) ==
                    sizeof(message) &&
            message.kind == TEMPLATE_FAILED) {
                error_sanitize(&message.error);
                if (err)
                        *err = message.error;
        }
        return (int)t->pid;
}

static int launch(struct template *t, const struct template_parts *parts, struct error *err)
{
        int pair[2], ends[2], on = 1;

        int r = stub_start(t->host->ids, parts->stub_filter_fd, t->host->children, &t->stub, err);
        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        t->messages = ends[0];
        _cleanup_close_ int their_stderr = ends[1];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "socketpair");
        t->control = pair[0];
        fd_refuse_rights(t->control);
        _cleanup_close_ int theirs = pair[1];
        if (setsockopt(t->control, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
                return error_errno(err, errno, "SO_PASSCRED");
        r = send_plan(t, parts, err);
        if (r < 0)
                return r;
        make_group(t);
        struct template_launch how = {.control = theirs,
                                      .init = parts->init_fd,
                                      .messages = their_stderr,
                                      .cgroup = t->cgroup ? cgroup_dir(t->cgroup) : -1};
        t->pid = template_launch(t->stub, t->host->children, &how, err);
        if (t->pid < 0)
                return take_launch_error(t, err);
        t->lends = t->cgroup && cgroup_holds(t->cgroup, t->pid);
        return watch(t, err);
}

int template_start(const struct template_host *host, const struct template_parts *parts,
                   struct template **ret, struct error *err)
{
        struct template *t = calloc(1, sizeof(*t));
        if (!t)
                return error_errno(err, ENOMEM, "template");
        t->host = host;
        t->control = -1;
        t->messages = -1;
        int r = launch(t, parts, err);
        if (r < 0) {
                mark_refusal(err);
                template_free(t);
                return r;
        }
        *ret = t;
        return 0;
}

struct template *template_free(struct template *t)
{
        if (!t)
                return NULL;
        if (t->readable)
                event_free(t->readable);
        if (t->messages_event)
                event_free(t->messages_event);
        if (t->deadline)
                event_free(t->deadline);
        int fds[] = {t->control, t->messages};
        fd_close_many(fds, ARRAY_SIZE(fds));
        if (t->pid > 0) {
                kill(t->pid, SIGKILL);
                waitpid(t->pid, NULL, 0);
                children_remove(t->host->children, t->pid);
                /* A session that it had begun and that was refused is our child: its pid namespace
                 * does not end before it is reaped. */
                children_request_close(t->host->children, &t->request, false);
                children_kill_unknown(t->host->children);
        }
        stub_unref(t->stub);
        cgroup_free(t->cgroup);
        free(t);
        return NULL;
}

void template_kill(const struct template *t)
{
        stub_kill(t->stub);
}

int template_make(struct template *t, struct sandbox *sandbox, const struct limits *limits,
                  bool rlimits, struct error *err)
{
        if (t->n_line == LINE_MAX_LENGTH)
                return error_set(err, EAGAIN, "too many sessions are being made at once");
        t->line[t->n_line++] = (struct waiting){sandbox, *limits, rlimits};
        next(t);
        return 0;
}
