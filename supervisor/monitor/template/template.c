/*
 * A template in the monitor.
 *
 * Theory of operation. The template makes one session at a time: it becomes idle with TEMPLATE_READY,
 * asked with SESSION_CREATE for the first in the queue, here with SESSION_HERE, whose sender is verified
 * and moved into its control group before SESSION_GO, and idle again with SESSION_MADE or SESSION_FAILED.
 * In idle, before and after each session, it is verified that nothing else was left running. The legal
 * messages of each state are in rpc/sandbox-messages.def.
 *
 * Any other message, the end of the socket or a passed deadline ends the template: it is killed, and
 * the next request starts a new one with new namespaces. The old namespaces end with their last
 * session. If a process of the image was left running, they end at once, with all of their sessions:
 * it may have changed them.
 *
 * Limits. The template is in a control group of its own with the limits of the profile. Once it
 * serves, the group may hold no further process, and one more only while a session is being made,
 * which is then moved to its own group. Without control groups, or where code of the image may be
 * able to change their limits, rlimits bound the process, and a timer measures what all of the
 * image's processes use together.
 */
#include "supervisor/monitor/template/template.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mount.h"
#include "policy/package-set.h"
#include "rpc/monitor-messages.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/process/child.h"
#include "supervisor/monitor/template/heap-files.h"
#include "supervisor/monitor/template/stub.h"
#include "supervisor/monitor/template/template-launch.h"

/* ---- its standard error ---- */

/* Warnings of packages, errors of CPython. It goes into the log, up to a budget for each period; what is
 * beyond is read and dropped, at a bounded rate. */
enum {
        TEMPLATE_MESSAGES_BUDGET = 16 * 1024, /* bytes logged in a period */
        TEMPLATE_MESSAGES_PERIOD_MS = 10000,
        TEMPLATE_MESSAGES_PAUSE_MS = 10, /* between two reads beyond the budget */
};

enum { LINE_SIZE = 1024, DROP_SIZE = 64 * 1024 };

struct template_messages {
        int fd;
        struct event *readable, *pause;
        uint64_t period_ms; /* when it began */
        size_t logged;      /* bytes, in this period */
        uint64_t dropped;
};

static void report_dropped(struct template_messages *m)
{
        if (m->dropped > 0)
                log_warning("template: %" PRIu64 " bytes more of its messages were dropped",
                            m->dropped);
        m->dropped = 0;
}

/* The text is untrusted: the log escapes control characters. */
static void log_some(struct template_messages *m)
{
        char text[LINE_SIZE];

        ssize_t n = read(m->fd, text, sizeof(text) - 1);
        if (n <= 0) {
                event_del(m->readable);
                return;
        }
        m->logged += (size_t)n;
        while (n > 0 && text[n - 1] == '\n')
                n--;
        text[n] = '\0';
        log_info("template: %s", text);
}

/* The template waits while the pipe is full. */
static void drop_some(struct template_messages *m)
{
        static char text[DROP_SIZE];

        ssize_t n = read(m->fd, text, sizeof(text));
        event_del(m->readable);
        if (n <= 0)
                return;
        m->dropped += (uint64_t)n;
        event_add(m->pause, &(struct timeval){.tv_usec = TEMPLATE_MESSAGES_PAUSE_MS * 1000});
}

static void on_message(evutil_socket_t fd, short what, void *data)
{
        struct template_messages *m = data;
        uint64_t now = clock_ms();
        if (now >= m->period_ms + TEMPLATE_MESSAGES_PERIOD_MS) {
                report_dropped(m);
                m->period_ms = now;
                m->logged = 0;
        }
        if (m->logged < TEMPLATE_MESSAGES_BUDGET)
                log_some(m);
        else
                drop_some(m);
}

static void on_pause_end(evutil_socket_t fd, short what, void *data)
{
        struct template_messages *m = data;
        event_add(m->readable, NULL);
}

static struct template_messages *template_messages_free(struct template_messages *m)
{
        if (!m)
                return NULL;
        report_dropped(m);
        loop_free_events((struct event *[]){m->readable, m->pause}, 2);
        fd_close_many(&m->fd, 1);
        free(m);
        return NULL;
}

/* fd: the read end of a pipe, owned by the callee on success. */
static int template_messages_new(struct event_base *base, int fd, struct template_messages **ret,
                                 struct error *err)
{
        struct template_messages *m = calloc(1, sizeof(*m));

        if (!m)
                return error_errno(err, ENOMEM, "messages of the template");
        m->fd = -1;
        m->period_ms = clock_ms();
        m->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_message, m);
        m->pause = evtimer_new(base, on_pause_end, m);
        if (!m->readable || !m->pause || event_add(m->readable, NULL) < 0) {
                template_messages_free(m);
                return error_errno(err, ENOMEM, "messages of the template");
        }
        m->fd = fd;
        *ret = m;
        return 0;
}

/* ---- codes of its errors ---- */

/* Sets MONITOR_CODE_NO_SANDBOX if this machine always refuses a step. It does not if something is
 * lacking at the moment, or if the tree of the image or of a mounted directory is at fault. */
static void template_error_mark(struct error *error)
{
        static const int others[] = {EAGAIN, ENOMEM, EMFILE,          ENFILE,  ECANCELED,
                                     EINTR,  ELOOP,  MOUNT_CODE_TREE, ENOTDIR, EXDEV};

        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                if (error->code == others[i])
                        return;
        error->code = MONITOR_CODE_NO_SANDBOX;
}

/* Of an error that a template has sent. ESTALE would tell the owner that this template has ended. */
static void template_error_sanitize(struct error *error)
{
        error_sanitize(error);
        if (error->code == ESTALE || error->code == 0)
                error->code = EIO;
}

/* ---- its limits ---- */

enum {
        PIDS_MIN = 16,        /* for the start of a template */
        CPU_MIN_MILLI = 1000, /* it makes the sessions of all */
        FILES_MIN = 256,
        SHARED_ID_FACTOR = 32, /* RLIMIT_NPROC of a template counts all of its sessions' processes
                                * where they have its id */
};

/* Those of a profile's sessions (NULL: the default ones), but enough to start and to make sessions. */
static struct limits template_limits_fit(const struct limits *limits)
{
        struct limits l;

        if (limits)
                l = *limits;
        else
                limits_default(&l);
        if (l.pids < PIDS_MIN)
                l.pids = PIDS_MIN;
        if (l.cpu_milli > 0 && l.cpu_milli < CPU_MIN_MILLI)
                l.cpu_milli = CPU_MIN_MILLI;
        return l;
}

/* A session may write large files there, and inherits the limit of file sizes. */
static bool writes_to_host(const struct config_profile *profile)
{
        for (size_t i = 0; profile && i < profile->n_mounts; i++) {
                if (profile->mounts[i].writable)
                        return true;
        }
        return false;
}

/* has_group: a control group bounds memory and processes. shares_id: its sessions have its id. profile:
 * may be NULL. */
static struct template_rlimits template_rlimits_choose(const struct limits *limits, bool has_group,
                                                       bool shares_id,
                                                       const struct config_profile *profile)
{
        struct template_rlimits ret = {
                .files = limits->open_files < FILES_MIN ? FILES_MIN : limits->open_files,
                .data = UINT64_MAX,
                .file_size = UINT64_MAX,
                .processes = UINT64_MAX,
        };

        if (has_group)
                return ret;
        ret.data = language_data_limit(profile ? profile->language : LANGUAGE_PYTHON,
                                       limits->memory);
        ret.processes = (uint64_t)limits->pids * (shares_id ? SHARED_ID_FACTOR : 1);
        if (!writes_to_host(profile))
                ret.file_size = limits->memory;
        return ret;
}

/* ---- its plan ---- */

/* The packages that are installed for sessions (docs/packages.md). */
static int plan_packages(const struct template_parts *parts, struct template_plan *plan, int *fds,
                         struct error *err)
{
        struct template_mount *planned = &plan->mounts[plan->n_mounts];

        for (uint32_t i = 0; i < plan->n_mounts; i++) {
                const char *target = plan->mounts[i].target;
                size_t n = strlen(target);
                if ((strncmp(PACKAGES_TARGET, target, n) == 0 && strchr("/", PACKAGES_TARGET[n])) ||
                    strncmp(target, PACKAGES_TARGET "/", sizeof(PACKAGES_TARGET)) == 0)
                        return error_set(err, EINVAL,
                                         "mount on %s: packages.install needs " PACKAGES_TARGET
                                         ": mount it elsewhere",
                                         target);
        }
        snprintf(planned->target, sizeof(planned->target), "%s", PACKAGES_TARGET);
        fds[plan->n_mounts++] = parts->packages_fd;
        return 0;
}

static int plan_mounts(const struct template_parts *parts, struct template_plan *plan, int *fds,
                       struct error *err)
{
        const struct config_profile *profile = parts->profile;

        static_assert(TEMPLATE_MOUNTS_MAX > (int)CONFIG_MOUNTS_MAX, "room for all mounts");
        for (size_t i = 0; i < profile->n_mounts; i++) {
                const struct config_mount *mount = &profile->mounts[i];
                struct template_mount *planned = &plan->mounts[i];
                if ((size_t)snprintf(planned->target, sizeof(planned->target), "%s",
                                     mount->target) >= sizeof(planned->target))
                        return error_errno(err, ENAMETOOLONG, "mount on %s", mount->target);
                planned->writable = mount->writable;
                planned->locks = mount->locks;
                fds[i] = parts->sources[i];
        }
        plan->n_mounts = (uint32_t)profile->n_mounts;
        return parts->packages_fd >= 0 ? plan_packages(parts, plan, fds, err) : 0;
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
        plan->language = profile->language;
        plan->no_speculation = profile->speculation_disabled;
        plan->loopback = profile->network != CONFIG_NETWORK_NONE;
        plan->proxy = profile->network == CONFIG_NETWORK_ALLOW;
        return plan_mounts(parts, plan, fds, err);
}

/* control: the monitor's end of the socket. */
static int template_plan_send(int control, enum sandbox_mode mode,
                              const struct template_parts *parts, const struct heap_files *files,
                              struct error *err)
{
        struct template_message message = {.kind = TEMPLATE_PLAN};
        int fds[TEMPLATE_FD_COUNT + TEMPLATE_MOUNTS_MAX] = {
                [TEMPLATE_FD_IMAGE] = parts->image_fd,
                [TEMPLATE_FD_WORKER] = parts->worker_fd,
                [TEMPLATE_FD_INIT] = parts->init_fd,
                [TEMPLATE_FD_TEMPLATE_FILTER] = parts->template_filter_fd,
                [TEMPLATE_FD_WORKER_FILTER] = parts->worker_filter_fd,
                [TEMPLATE_FD_INIT_FILTER] = parts->init_filter_fd,
                [TEMPLATE_FD_DRAFT] = files->draft,
                [TEMPLATE_FD_HEAP] = files->heap,
        };

        message.plan.mode = mode;
        message.plan.link = parts->image->link;
        message.plan.rlimits = parts->rlimits;
        static_assert(sizeof(message.plan.python) == sizeof(parts->image->python), "same size");
        memcpy(message.plan.python, parts->image->python, sizeof(message.plan.python));
        memcpy(message.plan.libpython, parts->image->libpython, sizeof(message.plan.libpython));
        int r = plan_profile(parts, &message.plan, fds + TEMPLATE_FD_COUNT, err);
        if (r < 0)
                return r;
        r = fd_send(control, &message, sizeof(message), fds,
                    TEMPLATE_FD_COUNT + message.plan.n_mounts, 0);
        return r < 0 ? error_errno(err, -r, "send the template its plan") : 0;
}

/* ---- the template ---- */

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

enum {
        MEASURE_START_MS = 20, /* between two measurements */
        MEASURE_MS = 1000,
        OVER_MAX = 3,       /* measurements: a process about to exec counts twice */
        MEASURE_SHARE = 10, /* measuring takes at most this part of the time */
};

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
        int start_seconds;
        struct stub *stub;
        struct networks *networks; /* of its sessions; NULL: each gets a new one */
        struct cgroup *
                cgroup; /* version 2: a sibling of its sessions' groups, so that it can clone into them */
        uint64_t request; /* of children_request(), until the session is here; or 0 */
        bool lends;       /* sessions are cloned into their groups: not refused so far */
        pid_t pid;
        struct family family;
        struct heap_files files;
        int control;
        struct template_messages *messages;
        struct limits limits;
        struct event *readable, *deadline;
        struct event *measure; /* where no control group bounds it for sure */
        unsigned n_over;       /* measurements above the memory limit, one after the other */
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
        if (t->measure)
                event_del(t->measure);
        while (t->n_line > 0)
                finish_first(t, &passed_on);
        t->host->ended(t->host->data, &t->error);
}

/* ---- what the image's code has left ---- */

static bool is_of_stub(const void *stub, pid_t pid)
{
        return stub_has(stub, pid);
}

/* Its sessions end too. */
static int condemn(struct template *t)
{
        t->try_again = false;
        stub_kill(t->stub);
        return -EPERM;
}

static int refuse_memory(struct template *t)
{
        error_set(&t->error, ENOMEM,
                  "code of the image took more than %" PRIu64
                  " MiB in its template, the profile's limits.memory",
                  t->limits.memory / (1024 * 1024));
        return condemn(t);
}

static int refuse_processes(struct template *t)
{
        error_set(
                &t->error, EAGAIN,
                "code of the image made more than %u processes in its template, the profile's limits.pids",
                t->limits.pids);
        return condemn(t);
}

static int handle_end(struct template *t);

/* Call while no session is being made. kill: children_kill_some(), children_kill_others(), or NULL: only what is below the
 * template and its stub. */
static int check_family(struct template *t, typeof(children_kill_some) *kill)
{
        int r = family_check(&t->family, &t->error);

        if (r == -EPERM)
                return condemn(t);
        if (r < 0)
                return handle_end(t);
        if (!kill || kill(t->host->children, is_of_stub, t->stub) <= 0)
                return 0;
        error_set(
                &t->error, EPERM,
                "the template made processes that were not requested: it is ended with all of its sessions");
        return condemn(t);
}

static void let_processes(struct template *t, uint32_t n)
{
        if (t->cgroup)
                cgroup_set_pids(t->cgroup, n);
}

static void plan_measure(struct template *t, uint64_t took_us)
{
        uint64_t ms = t->state == TEMPLATE_STARTING ? MEASURE_START_MS : MEASURE_MS;

        if (ms < took_us * MEASURE_SHARE / 1000)
                ms = took_us * MEASURE_SHARE / 1000;
        struct timeval after = clock_timeval_ms(ms);
        if (t->measure)
                event_add(t->measure, &after);
}

static void on_measure(evutil_socket_t fd, short what, void *data)
{
        struct template *t = data;
        uint64_t began_us = clock_us();
        struct family_usage usage;
        int r = 0;
        family_measure(stub_pid(t->stub), t->pid, t->limits.pids, &usage);
        usage.memory += heap_files_size(&t->files);
        t->n_over = usage.memory > t->limits.memory ? t->n_over + 1 : 0;
        if (usage.processes > t->limits.pids)
                r = refuse_processes(t);
        else if (t->n_over >= OVER_MAX)
                r = refuse_memory(t);
        else if (t->state == TEMPLATE_IDLE)
                r = check_family(t, children_kill_some);
        if (r < 0)
                give_up(t);
        else
                plan_measure(t, clock_us() - began_us);
}

static int handle_ready(struct template *t)
{
        if (t->cgroup && cgroup_pids_refused(t->cgroup) > 0)
                return refuse_processes(t);
        if (t->cgroup && cgroup_oom_kills(t->cgroup) > 0)
                return refuse_memory(t);
        int r = check_family(t, children_kill_some);
        if (r < 0)
                return r;
        let_processes(t, 1);
        event_del(t->deadline);
        t->state = TEMPLATE_IDLE;
        t->try_again = true;
        return 0;
}

/* ---- sessions ---- */

static void next(struct template *t)
{
        struct template_message create = {.kind = SESSION_CREATE};

        if (t->state != TEMPLATE_IDLE || t->n_line == 0)
                return;
        /* A child that was made since the last session is found when this one is made, before any code runs in it. */
        if (check_family(t, NULL) < 0) {
                give_up(t);
                return;
        }
        let_processes(t, 2);
        struct waiting *first = &t->line[0];
        create.session = (struct session_plan){.id = sandbox_id(first->sandbox),
                                               .rlimits = first->rlimits,
                                               .shares = !sandbox_has_share(first->sandbox),
                                               .limits = first->limits};
        if (t->lends)
                t->lends = sandbox_lend_cgroup(first->sandbox, t->host->ids->first,
                                               t->host->ids->group);
        create.session.cgroup = t->lends;
        int fds[SESSION_FD_MAX];
        size_t n_fds = SESSION_FD_COUNT + create.session.cgroup;
        memcpy(fds, sandbox_inner_fds(first->sandbox), n_fds * sizeof(fds[0]));
        _cleanup_close_ int network = t->networks ? networks_take(t->networks,
                                                                  sandbox_principal(first->sandbox))
                                                  : -1;
        create.session.network = network >= 0;
        if (network >= 0)
                fds[n_fds++] = network;
        int r = fd_send(t->control, &create, sizeof(create), fds, n_fds, 0);
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

        int r = sandbox_adopt(t->line[0].sandbox, pid, t->stub, t->networks, &t->error);
        if (r < 0)
                return r;
        children_request_close(t->host->children, &t->request, true);
        let_processes(t, 1);
        /* A refused CLONE_INTO_CGROUP is not retried. */
        t->lends = t->lends && sandbox_is_placed(t->line[0].sandbox);
        r = fd_send(t->control, &go, sizeof(go), NULL, 0, 0);
        if (r < 0)
                return error_errno(&t->error, -r, "let the session continue");
        t->state = TEMPLATE_HERE;
        return 0;
}

static int handle_session_end(struct template *t, const struct error *error)
{
        event_del(t->deadline);
        t->state = TEMPLATE_IDLE;
        children_request_close(t->host->children, &t->request, false);
        let_processes(t, 1);
        /* Processes that a failed session left behind are not treated as an attack. */
        if (error)
                children_kill_some(t->host->children, is_of_stub, t->stub);
        int r = check_family(t, children_kill_others);
        if (r < 0)
                return r;
        const struct template_host *host = t->host;
        finish_first(t, error);
        next(t);
        if (host->has_room) /* the template may have ended */
                host->has_room(host->data);
        return 0;
}

/* The states in which the monitor takes a message. */
static const struct {
        enum { FROM_MONITOR, FROM_TEMPLATE, FROM_INIT } from;
        enum template_state first, last;
} legal[TEMPLATE_MESSAGE_MAX] = {
#define TEMPLATE_MESSAGE(name, from, first, last, answers, member, text)                           \
        [name] = {FROM_##from, TEMPLATE_##first, TEMPLATE_##last},
#include "rpc/sandbox-messages.def"
};

static bool is_legal(const struct template *t, uint32_t kind)
{
        return kind < TEMPLATE_MESSAGE_MAX && legal[kind].from != FROM_MONITOR &&
               t->state >= legal[kind].first && t->state <= legal[kind].last;
}

static int handle(struct template *t, struct template_message *message, pid_t pid)
{
        struct error *error = &message->error;

        if (!is_legal(t, message->kind))
                return error_set(&t->error, EPROTO, "the template sent message %u while %s",
                                 message->kind, state_names[t->state]);
        if (message->kind == TEMPLATE_FAILED || message->kind == SESSION_FAILED) {
                template_error_sanitize(error);
                template_error_mark(error);
        }
        if (message->kind == SESSION_HERE)
                return handle_here(t, pid);
        if (message->kind == SESSION_MADE)
                return handle_session_end(t, NULL);
        if (message->kind == SESSION_FAILED)
                return handle_session_end(t, error);
        if (message->kind == TEMPLATE_FAILED) {
                t->error = *error;
                return -EIO;
        }
        int r = handle_ready(t);
        if (r >= 0)
                next(t);
        return r;
}

/* Whether SIGKILL ended it: from outside, or by the OOM killer. A process that has closed its socket
 * is killed here; if it was exiting already, it keeps its exit status. */
static bool was_killed(const struct template *t)
{
        siginfo_t how = {};

        child_signal(t->pid, SIGKILL);
        return waitid(P_PID, (id_t)t->pid, &how, WEXITED | WNOWAIT) == 0 &&
               how.si_code == CLD_KILLED && how.si_status == SIGKILL;
}

static int handle_end(struct template *t)
{
        bool killed = was_killed(t);

        if (t->state == TEMPLATE_STARTING && killed && t->cgroup && cgroup_oom_kills(t->cgroup) > 0)
                return refuse_memory(t);
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

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct template *t = data;
        error_set(&t->error, ETIMEDOUT, "the template did not answer in time while %s",
                  state_names[t->state]);
        give_up(t);
}

static int watch(struct template *t, bool measure, struct error *err)
{
        t->readable = event_new(t->host->base, t->control, EV_READ | EV_PERSIST, on_readable, t);
        t->deadline = evtimer_new(t->host->base, on_deadline, t);
        if (measure)
                t->measure = evtimer_new(t->host->base, on_measure, t);
        if (!t->readable || !t->deadline || (measure && !t->measure) ||
            event_add(t->readable, NULL) < 0)
                return error_errno(err, ENOMEM, "watch the template");
        set_deadline(t, t->start_seconds);
        plan_measure(t, 0);
        return 0;
}

static int make_group(struct template *t, struct error *err)
{
        struct cgroups *cgroups = *t->host->cgroups;

        if (cgroups_version(cgroups) == CGROUP_NONE)
                return 0;
        int r = cgroup_new(cgroups, 0, &t->limits, &t->cgroup, err);
        if (r >= 0)
                cgroup_prefer(t->cgroup);
        return r;
}

/* In the group before it gets its plan, and so before code of the image runs. If the clone into the
 * group was refused, sessions are moved into theirs as well. */
static int enter_group(struct template *t, struct error *err)
{
        t->lends = t->cgroup && cgroup_holds(t->cgroup, t->pid);
        return t->cgroup && !t->lends ? cgroup_add(t->cgroup, t->pid, err) : 0;
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
        _cleanup_close_ int messages = ends[0];
        _cleanup_close_ int their_stderr = ends[1];
        r = template_messages_new(t->host->base, messages, &t->messages, err);
        if (r < 0)
                return r;
        take_fd(messages);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "socketpair");
        t->control = pair[0];
        fd_refuse_rights(t->control);
        _cleanup_close_ int theirs = pair[1];
        if (setsockopt(t->control, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
                return error_errno(err, errno, "SO_PASSCRED");
        r = make_group(t, err);
        if (r < 0)
                return r;
        bool measure = !t->cgroup || parts->rlimits;
        struct template_launch how = {.control = theirs,
                                      .init = parts->init_fd,
                                      .messages = their_stderr,
                                      .rlimits = template_rlimits_choose(&t->limits, !measure,
                                                                         t->host->ids->count == 1,
                                                                         parts->profile),
                                      .cgroup = t->cgroup ? cgroup_dir(t->cgroup) : -1};
        t->pid = template_launch(t->stub, t->host->children, &how, err);
        if (t->pid < 0)
                return take_launch_error(t, err);
        r = enter_group(t, err);
        if (r >= 0)
                r = family_open(stub_pid(t->stub), t->pid, &t->family, err);
        if (r >= 0)
                r = heap_files_make(&t->files, err);
        if (r >= 0)
                r = template_plan_send(t->control, t->host->ids->mode, parts, &t->files, err);
        return r < 0 ? r : watch(t, measure, err);
}

int template_start(const struct template_host *host, const struct template_parts *parts,
                   struct template **ret, struct error *err)
{
        struct template *t = calloc(1, sizeof(*t));
        if (!t)
                return error_errno(err, ENOMEM, "template");
        t->host = host;
        t->family = FAMILY_INIT;
        t->files = HEAP_FILES_INIT;
        t->control = -1;
        t->start_seconds = host->start_seconds > 0 ? host->start_seconds : START_SECONDS;
        t->limits = template_limits_fit(parts->limits);
        int r = 0;
        if (parts->profile && parts->profile->recycle &&
            parts->profile->network == CONFIG_NETWORK_NONE)
                r = networks_new(&t->networks, err);
        if (r >= 0)
                r = launch(t, parts, err);
        if (r < 0) {
                template_error_mark(err);
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
        loop_free_events((struct event *[]){t->readable, t->measure, t->deadline}, 3);
        template_messages_free(t->messages);
        fd_close_many(&t->control, 1);
        family_close(&t->family);
        heap_files_close(&t->files);
        if (t->pid > 0) {
                child_kill(t->pid);
                children_remove(t->host->children, t->pid);
                /* A session that it had begun and that was refused is our child: its pid namespace
                 * does not end before it is reaped. */
                children_request_close(t->host->children, &t->request, false);
                children_kill_unknown(t->host->children);
        }
        networks_close(t->networks);
        networks_unref(t->networks);
        stub_unref(t->stub);
        cgroup_free(t->cgroup);
        free(t);
        return NULL;
}

bool template_may_be_replaced(const struct template *t)
{
        return t->try_again;
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
