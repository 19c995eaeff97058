/* A sandbox in the monitor. */
#include "supervisor/monitor/template/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/process/process-memory.h"
#include "supervisor/monitor/template/sandbox-copy.h"
#include "supervisor/monitor/template/sandbox-internal.h"

/* ---- a sandbox that is over a limit which no control group has ---- */

enum { KILLED_MAX = 256 }; /* takes a millisecond */

const struct sandbox_memory *sandbox_memory(const struct sandbox *s)
{
        return s->memory.proc < 0 && s->memory.sockets < 0 ? NULL : &s->memory;
}

static int stat_namespace(int proc, const char *pid, struct stat *ret)
{
        char path[32];

        snprintf(path, sizeof(path), "%s/ns/pid", pid);
        return fstatat(proc, path, ret, 0);
}

/* Opens what the monitor counts it with. */
static int sandbox_open_memory(struct sandbox *s, struct error *err)
{
        char path[64];

        /* PID 1 has covered the template's /proc with its own by now. */
        snprintf(path, sizeof(path), "/proc/%d/root/proc", (int)s->pid);
        if (!s->cgroup)
                s->memory.proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (!s->cgroup && s->memory.proc < 0)
                return error_errno(err, errno, "open %s", path);
        snprintf(path, sizeof(path), "/proc/%d/net/sockstat", (int)s->pid);
        s->memory.sockets = open(path, O_RDONLY | O_CLOEXEC);
        return s->memory.sockets < 0 ? error_errno(err, errno, "open %s", path) : 0;
}

/* A hostile template can mount another directory over /proc: only processes of this namespace
 * are killed. A process's directory in /proc means it for pidfd_send_signal(2), also when it has
 * ended. */
static void kill_one(int proc, long pid, const struct stat *namespace)
{
        char path[32];
        struct stat of;

        snprintf(path, sizeof(path), "%ld", pid);
        _cleanup_close_ int fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && stat_namespace(fd, ".", &of) == 0 && of.st_ino == namespace->st_ino &&
            of.st_dev == namespace->st_dev)
                syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

/* All but init and the copies, where they have our id (else EPERM). init does the same, and reaches those
 * too that are being forked; but it waits for a processor together with them, for some hundred
 * milliseconds on a busy machine, in which they grow. */
static void kill_processes(const struct sandbox *s)
{
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(
                s->memory.proc, ".");
        char init[32];
        struct stat namespace;
        long pid;

        snprintf(init, sizeof(init), "/proc/%d", (int)s->pid);
        if (s->pidfd < 0 || stat_namespace(AT_FDCWD, init, &namespace) < 0)
                return;
        for (int n = 0; n < KILLED_MAX && (pid = process_cursor_next(&c)) > 0; n++) {
                if (pid != 1 && !sandbox_is_copy(s, (pid_t)pid))
                        kill_one(s->memory.proc, pid, &namespace);
        }
}

void sandbox_kill_for_memory(struct sandbox *s, enum monitor_limit limit)
{
        s->is_out_of_memory = true;
        s->limit_reached = limit;
        kill_processes(s);
        /* The copies have most of the memory that has to become free for others. */
        if (limit != MONITOR_LIMIT_SESSION || s->n_copies == 0 || sandbox_restore(s, 0) < 0)
                sandbox_kill(s);
}

uint64_t sandbox_memory_now(const struct sandbox *s)
{
        return s->cgroup ? cgroup_memory_now(s->cgroup) : 0;
}

bool sandbox_is_out_of_memory(const struct sandbox *s)
{
        return s->is_out_of_memory;
}

/* ---- between two calls ---- */

enum { REST_LEAST_US = 100000 }; /* between two readings of the counter */

/* At the earliest when all processors together can have used it up. */
static void watch_rest(struct sandbox *s, uint64_t left_us)
{
        uint64_t us = left_us / (uint64_t)sysconf(_SC_NPROCESSORS_CONF);
        const struct timeval t = clock_timeval_ms((us > REST_LEAST_US ? us : REST_LEAST_US) / 1000);

        event_add(s->rest, &t);
}

/* Without init, the copies and the worker, unless the worker is all there is. */
static uint32_t count_stopped(const struct sandbox *s)
{
        size_t all = cgroup_count(s->cgroup), ours = s->n_copies + 2;

        return all > ours ? (uint32_t)(all - ours) : 1;
}

static void on_rest(evutil_socket_t fd, short what, void *data)
{
        struct sandbox *s = data;
        uint64_t most = s->rest_ms * UINT64_C(1000);
        uint64_t used = cgroup_cpu_usec(s->cgroup) - s->rest_cpu_us;

        if (used < most) {
                watch_rest(s, most - used);
                return;
        }
        s->is_stopped = cgroup_freeze(s->cgroup, true) >= 0;
        if (s->is_stopped)
                s->host->stopped(s->host->data, s, count_stopped(s));
        else
                s->is_stopped_by_init = sandbox_ask_init(s, INIT_REST, 1) >= 0;
}

static int end_rest(struct sandbox *s)
{
        if (s->is_stopped)
                (void)cgroup_freeze(s->cgroup, false);
        s->is_stopped = false;
        int r = s->is_stopped_by_init ? sandbox_ask_init(s, INIT_REST, 0) : 0;
        s->is_stopped_by_init = false;
        return r;
}

int sandbox_rest(struct sandbox *s, uint32_t ms)
{
        if (s->rest)
                event_del(s->rest);
        s->rest_ms = ms;
        bool by_group = s->cgroup && cgroup_rest(s->cgroup, ms > 0) >= 0;
        if (ms == 0)
                return end_rest(s);
        if (!by_group) {
                s->is_stopped_by_init = true;
                return sandbox_ask_init(s, INIT_REST, (pid_t)ms);
        }
        if (ms == SANDBOX_REST_UNLIMITED)
                return 0;
        if (!s->rest)
                s->rest = evtimer_new(s->host->base, on_rest, s);
        if (!s->rest)
                return -ENOMEM;
        s->rest_cpu_us = cgroup_cpu_usec(s->cgroup);
        watch_rest(s, ms * UINT64_C(1000));
        return 0;
}

/* ---- while a person decides ---- */

enum {
        HOLD_LOOK_MS = 1,
        HOLD_LOOKS_MAX =
                1000, /* the rest is in uninterruptible system calls, and stops before it runs code */
};

static void on_hold(evutil_socket_t fd, short what, void *data)
{
        const struct timeval t = clock_timeval_ms(HOLD_LOOK_MS);
        struct sandbox *s = data;

        if (!cgroup_is_frozen(s->cgroup) && ++s->hold_looks < HOLD_LOOKS_MAX)
                event_add(s->hold, &t);
        else
                s->host->held(s->host->data, s, s->hold_number, false);
}

static int end_hold(struct sandbox *s)
{
        int r = 0;

        if (s->hold)
                event_del(s->hold);
        if (s->is_held)
                r = cgroup_freeze(s->cgroup, false);
        else if (s->is_held_by_init)
                r = sandbox_ask_init(s, INIT_HOLD, 0);
        s->is_held = s->is_held_by_init = false;
        return r;
}

int sandbox_hold(struct sandbox *s, uint32_t number)
{
        const struct timeval now = {};

        s->hold_number = number;
        if (number == 0)
                return end_hold(s);
        if (!s->is_held && !s->is_held_by_init) {
                s->hold_looks = 0;
                s->is_held = s->cgroup && cgroup_freeze(s->cgroup, true) >= 0;
                s->is_held_by_init = !s->is_held;
        }
        if (s->is_held_by_init)
                return sandbox_ask_init(s, INIT_HOLD, (pid_t)number);
        if (!s->hold)
                s->hold = evtimer_new(s->host->base, on_hold, s);
        return s->hold && event_add(s->hold, &now) >= 0 ? 0 : -ENOMEM;
}

enum {
        PIPE_SMALL = 4096, /* bytes: one page */
        COPY_PIDS = 2,     /* a copy and its helper */
};

static int new_pipe(int *read_end, int *write_end, bool for_output, struct error *err)
{
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        *read_end = ends[0];
        *write_end = ends[1];
        /* The sandbox has another id. Opening /dev/stdout for writing checks the pipe's mode. */
        if (for_output && fchmod(ends[1], 0622) < 0)
                return error_errno(err, errno, "fchmod of a pipe");
        return 0;
}

static int make_channels(struct sandbox *s, struct error *err)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "socketpair");
        s->rpc = pair[0];
        fd_refuse_rights(s->rpc);
        s->inner[SESSION_FD_RPC] = pair[1];
        int r = new_pipe(&s->out, &s->inner[SESSION_FD_STDOUT], true, err);
        if (r >= 0)
                r = new_pipe(&s->err_out, &s->inner[SESSION_FD_STDERR], true, err);
        if (r >= 0)
                r = new_pipe(&s->report, &s->inner[SESSION_FD_REPORT], false, err);
        /* A hostile template may keep the write end: reading it after init's end must not wait. */
        if (r >= 0 && fcntl(s->report, F_SETFL, O_NONBLOCK) < 0)
                r = error_errno(err, errno, "fcntl of a pipe");
        if (r >= 0)
                r = new_pipe(&s->inner[SESSION_FD_CONTROL], &s->control, false, err);
        /* A frozen init does not read: the monitor must not wait for it. */
        if (r >= 0 && fcntl(s->control, F_SETFL, O_NONBLOCK) < 0)
                r = error_errno(err, errno, "fcntl of a pipe");
        /* Messages of a few bytes. The pages of all pipes of a user have a limit (pipe(7), pipe-user-pages-soft). */
        if (r >= 0) {
                (void)fcntl(s->report, F_SETPIPE_SZ, PIPE_SMALL);
                (void)fcntl(s->control, F_SETPIPE_SZ, PIPE_SMALL);
        }
        /* Neither does init wait for the broker, nor the broker for init. */
        if (r >= 0)
                r = new_pipe(&s->changes, &s->inner[SESSION_FD_CHANGES], false, err);
        if (r >= 0 && (fcntl(s->changes, F_SETFL, O_NONBLOCK) < 0 ||
                       fcntl(s->inner[SESSION_FD_CHANGES], F_SETFL, O_NONBLOCK) < 0))
                r = error_errno(err, errno, "fcntl of a pipe");
        return r;
}

int sandbox_new(const struct sandbox_host *host, uint32_t handle, uint32_t id, uint32_t serial,
                uint32_t principal, const struct limits *limits, struct sandbox **ret,
                struct error *err)
{
        struct sandbox *s = calloc(1, sizeof(*s));
        if (!s)
                return error_errno(err, ENOMEM, "sandbox");
        *s = (struct sandbox){.host = host,
                              .handle = handle,
                              .id = id,
                              .serial = serial,
                              .principal = principal,
                              .pidfd = -1,
                              .inner = {-1, -1, -1, -1, -1, -1, -1, -1},
                              .left = NETWORK_LEFT_NONE,
                              .rpc = -1,
                              .out = -1,
                              .err_out = -1,
                              .changes = -1,
                              .report = -1,
                              .control = -1,
                              .listener = -1,
                              .memory = {-1, -1, limits->memory},
                              .limit = limits->memory,
                              .has_sockets = limits->socket_buffers > 0,
                              .wait_status = -1};
        struct limits with_reserve = *limits;
        with_reserve.memory += sandbox_reserve(s);
        int r = make_channels(s, err);
        if (r >= 0 && cgroups_version(host->cgroups) != CGROUP_NONE)
                r = cgroup_new_of(host->cgroups, principal, handle, &with_reserve, &s->cgroup, err);
        if (r < 0) {
                sandbox_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

/* is_reaped: by on_end(), after all of its processes. Otherwise its network namespace is not kept. */
static void leave_network(struct sandbox *s, bool is_reaped)
{
        struct network_left none = NETWORK_LEFT_NONE;

        if (s->networks)
                networks_leave(s->networks, s->network, s->principal, is_reaped ? &s->left : &none);
        fd_close_many((int[]){s->left.namespace, s->left.sockets}, 2);
        s->left = NETWORK_LEFT_NONE;
        s->networks = networks_unref(s->networks);
}

struct sandbox *sandbox_free(struct sandbox *s)
{
        if (!s)
                return NULL;
        loop_free_events((struct event *[]){s->end, s->reports, s->rest, s->hold}, 4);
        if (s->pidfd >= 0) {
                sandbox_kill(s);
                waitid(P_PIDFD, (id_t)s->pidfd, &(siginfo_t){}, WEXITED);
                children_remove(s->host->children, s->pid);
        }
        leave_network(s, false);
        stub_unref(s->stub);
        cgroup_free(s->cgroup);
        sandbox_close_inner(s);
        int fds[] = {s->pidfd,  s->rpc,     s->out,         s->err_out,        s->changes,
                     s->report, s->control, s->memory.proc, s->memory.sockets, s->listener};
        fd_close_many(fds, ARRAY_SIZE(fds));
        child_task_cancel(s->counting);
        sandbox_forget_copies(s);
        free(s);
        return NULL;
}

uint32_t sandbox_handle(const struct sandbox *s)
{
        return s->handle;
}

uint32_t sandbox_id(const struct sandbox *s)
{
        return s->id;
}

uint32_t sandbox_principal(const struct sandbox *s)
{
        return s->principal;
}

bool sandbox_is_up(const struct sandbox *s)
{
        return s->end && !s->is_killed;
}

uint32_t sandbox_serial(const struct sandbox *s)
{
        return s->serial;
}

pid_t sandbox_pid(const struct sandbox *s)
{
        return s->pid;
}

void sandbox_set_listener(struct sandbox *s, int listener)
{
        s->listener = listener;
}

int sandbox_take_listener(struct sandbox *s)
{
        return take_fd(s->listener);
}

const int *sandbox_inner_fds(const struct sandbox *s)
{
        return s->inner;
}

void sandbox_close_inner(struct sandbox *s)
{
        fd_close_many(s->inner, SESSION_FD_MAX);
}

bool sandbox_lend_cgroup(struct sandbox *s, uid_t uid, gid_t gid)
{
        if (s->cgroup)
                s->inner[SESSION_FD_CGROUP] = cgroup_lend(s->cgroup, uid, gid);
        return s->inner[SESSION_FD_CGROUP] >= 0;
}

bool sandbox_has_share(const struct sandbox *s)
{
        return s->cgroup && cgroup_has_share(s->cgroup);
}

bool sandbox_is_placed(const struct sandbox *s)
{
        return s->is_placed;
}

int sandbox_adopt(struct sandbox *s, pid_t pid, struct stub *stub, struct networks *networks,
                  struct error *err)
{
        if (s->pidfd >= 0 || !children_is_new(s->host->children, pid))
                return error_set(err, EPROTO, "process %d is not the requested one", (int)pid);
        s->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (s->pidfd < 0)
                return error_errno(err, errno, "pidfd_open");
        s->pid = pid;
        s->stub = stub_ref(stub);
        int r = children_add(s->host->children, pid);
        if (r < 0)
                return error_errno(err, -r, "adopt");
        if (networks) {
                s->networks = networks_ref(networks);
                r = networks_enter(networks, pid, &s->network, err);
                if (r < 0)
                        return r;
        }
        s->is_placed = s->cgroup && cgroup_holds(s->cgroup, pid);
        return s->cgroup && !s->is_placed ? cgroup_add(s->cgroup, pid, err) : 0;
}

/* The one child of init. */
static pid_t find_worker(const struct sandbox *s)
{
        char path[64], text[32];

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)s->pid, (int)s->pid);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -errno : fd_read_full(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return -ESRCH;
        text[n] = '\0';
        return (pid_t)strtol(text, NULL, 10);
}

static int open_proc(pid_t pid, const char *file, struct error *err)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? error_errno(err, errno, "open %s", path) : fd;
}

static int open_usage(struct sandbox *s, int fds[SESSION_FDS], struct error *err)
{
        int r = s->cgroup && !s->has_sockets ? 0 : sandbox_open_memory(s, err);
        if (r < 0)
                return r;
        if (s->cgroup)
                return cgroup_open_usage(s->cgroup, fds, err);
        pid_t worker = find_worker(s);
        if (worker <= 0)
                return error_set(err, ESRCH, "the worker ended at once");
        fds[SESSION_CPU] = open_proc(worker, "stat", err);
        fds[SESSION_MEMORY_PEAK] = open_proc(worker, "status", err);
        fds[SESSION_MEMORY] = open_proc(worker, "status", err);
        return fds[SESSION_CPU] < 0 || fds[SESSION_MEMORY_PEAK] < 0 || fds[SESSION_MEMORY] < 0
                       ? -EIO
                       : 0;
}

/* Of an OOM kill in its group. */
static enum monitor_limit which_limit(struct sandbox *s)
{
        if (cgroup_has_reached_limit(s->cgroup, &s->limit_hits))
                return MONITOR_LIMIT_SESSION;
        return s->principal > 0 && s->host->has_reached_sum(s->host->data, s->principal)
                       ? MONITOR_LIMIT_PRINCIPAL
                       : MONITOR_LIMIT_TOTAL;
}

static void count(struct sandbox *s, struct monitor_ended *how)
{
        if (s->cgroup) {
                uint32_t kills = cgroup_oom_kills(s->cgroup);
                how->cpu_usec = cgroup_cpu_usec(s->cgroup);
                how->memory_peak = cgroup_memory_peak(s->cgroup);
                how->oom_kills = kills - s->oom_kills;
                s->oom_kills = kills;
                if (how->oom_kills > 0)
                        how->limit = which_limit(s);
        }
        if (s->is_out_of_memory) {
                how->oom_kills = 1;
                how->limit = s->limit_reached;
        }
        s->is_out_of_memory = false;
}

/* ---- reports of init ---- */

static int open_counters(struct sandbox *s, const struct sandbox_copy *copy,
                         int fds[SESSION_COUNTERS])
{
        int all[SESSION_FDS] = {-1, -1, -1, -1, -1, -1, -1};
        struct error error = {};
        int r = 0;

        if (s->cgroup) {
                r = cgroup_open_usage(s->cgroup, all, &error);
        } else {
                all[SESSION_CPU] = openat(copy->dir, "stat", O_RDONLY | O_CLOEXEC);
                all[SESSION_MEMORY_PEAK] = openat(copy->dir, "status", O_RDONLY | O_CLOEXEC);
                all[SESSION_MEMORY] = openat(copy->dir, "status", O_RDONLY | O_CLOEXEC);
        }
        for (int i = 0; i < SESSION_COUNTERS; i++) {
                fds[i] = all[SESSION_CPU + i];
                if (fds[i] < 0)
                        r = -EIO;
        }
        if (r < 0)
                fd_close_many(fds, SESSION_COUNTERS);
        return r;
}

static void take_cleared(struct sandbox *s, const struct init_report *report)
{
        struct monitor_ended how = {.wait_status = report->value,
                                    .copy = (uint32_t)report->pid,
                                    .last_pid = (uint32_t)report->last};
        const struct sandbox_copy *copy = sandbox_find_copy(s, report->pid);
        int fds[SESSION_COUNTERS];

        /* A template of a hostile image could write to the pipe. */
        if (!copy || open_counters(s, copy, fds) < 0) {
                sandbox_kill(s);
                return;
        }
        sandbox_end_keep(s, -ESRCH);
        count(s, &how);
        if (how.oom_kills > 0 && how.limit != MONITOR_LIMIT_SESSION) {
                fd_close_many(fds, SESSION_COUNTERS);
                sandbox_kill_for_memory(s, how.limit);
                return;
        }
        s->host->cleared(s->host->data, s, &how, fds);
        sandbox_promote_copy(s, report->pid);
}

static void pass_count(struct sandbox *s, const struct init_report *report, uint32_t own)
{
        s->host->counted(s->host->data, s,
                         &(struct monitor_counted){.last_pid = (uint32_t)report->last, .own = own});
}

static void take_report(struct sandbox *s, const struct init_report *report)
{
        if (report->kind == INIT_ENDED) {
                s->wait_status = report->value;
                s->last_pid = (uint32_t)report->last;
        } else if (s->counting && (report->kind == INIT_KEPT || report->kind == INIT_REFUSED)) {
                /* init was not asked yet: a template of a hostile image could write to the pipe. */
                sandbox_kill(s);
        } else if (report->kind == INIT_KEPT || report->kind == INIT_REFUSED) {
                pass_count(s, report, report->kind == INIT_KEPT ? COPY_PIDS : 0);
                sandbox_end_keep(s, report->kind == INIT_KEPT ? 0 : -ESRCH);
        } else if (report->kind == INIT_GONE) {
                sandbox_note_gone(s, report->pid);
        } else if (report->kind == INIT_CLEARED) {
                take_cleared(s, report);
        } else if (report->kind == INIT_COUNTED) {
                pass_count(s, report, 0);
        } else if (report->kind == INIT_STOPPED && s->is_stopped_by_init) {
                s->host->stopped(s->host->data, s, (uint32_t)report->value);
        } else if (report->kind == INIT_SWEPT) {
                s->host->swept(s->host->data, s);
        } else if ((report->kind == INIT_HELD || report->kind == INIT_RAN) && s->is_held_by_init) {
                s->host->held(s->host->data, s, (uint32_t)report->value, report->kind == INIT_RAN);
        }
}

static void read_reports(struct sandbox *s)
{
        struct init_report report;

        while (read(s->report, &report, sizeof(report)) == sizeof(report))
                take_report(s, &report);
}

/* At init's end on_end() reads what is left. */
static void on_report(evutil_socket_t fd, short what, void *data)
{
        struct sandbox *s = data;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 0) == 1 && !(p.revents & POLLIN))
                event_del(s->reports);
        else
                read_reports(s);
}

static int watch_reports(struct sandbox *s, struct error *err)
{
        s->reports = event_new(s->host->base, s->report, EV_READ | EV_PERSIST, on_report, s);
        if (!s->reports || event_add(s->reports, NULL) < 0)
                return error_errno(err, ENOMEM, "watch init's reports");
        return 0;
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct sandbox *s = data;
        struct monitor_ended how = {};
        bool is_reaped = waitid(P_PIDFD, (id_t)s->pidfd, &(siginfo_t){}, WEXITED) == 0;
        children_remove(s->host->children, s->pid);
        close(take_fd(s->pidfd));
        leave_network(s, is_reaped);
        read_reports(s);
        sandbox_end_keep(s, -ESRCH);
        how.wait_status = s->wait_status;
        how.last_pid = s->last_pid;
        count(s, &how);
        s->host->ended(s->host->data, s, &how);
}

int sandbox_open_outer(struct sandbox *s, int fds[SESSION_FDS], struct error *err)
{
        for (int i = 0; i < SESSION_FDS; i++)
                fds[i] = -1;
        int r = open_usage(s, fds, err);
        if (r >= 0) {
                s->end = event_new(s->host->base, s->pidfd, EV_READ, on_end, s);
                if (!s->end || event_add(s->end, NULL) < 0)
                        r = error_errno(err, ENOMEM, "watch the sandbox");
                else
                        r = watch_reports(s, err);
        }
        if (r < 0) {
                fd_close_many(fds, SESSION_FDS);
                return r;
        }
        fds[SESSION_RPC] = take_fd(s->rpc);
        fds[SESSION_STDOUT] = take_fd(s->out);
        fds[SESSION_STDERR] = take_fd(s->err_out);
        fds[SESSION_CHANGES] = take_fd(s->changes);
        return 0;
}
