/*
 * The limits of sessions: control groups, or rlimits.
 *
 * Theory of operation. cgroups_open() tries which control groups can be used. Where version 2 is
 * mounted and no group was delegated to us, a child asks systemd for a scope, while the monitor
 * continues and the broker answers its client. Sessions requested meanwhile wait for the answer,
 * because a template must start in the group that its sessions will be in. Without a scope rlimits
 * bound each process, and memory-watch.h each session.
 */
#include "supervisor/monitor/monitor-limits.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "supervisor/monitor/cgroup/cgroup-total.h"
#include "supervisor/monitor/cgroup/janitor.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-secrets.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-sums.h"
#include "supervisor/monitor/monitor-upstreams.h"
#include "supervisor/monitor/process/process-tree.h"

enum { OWN_MAX = 256 }; /* processes of our own */

/* Wraps around: for differences only. */
static int now_ms(void)
{
        return (int)(clock_ms() % 1000000000);
}

/* The janitor starts before the groups are made, because the monitor can be killed at any time.
 * Where no group can be made there is none. */
static int start_janitor(struct monitor *m, struct error *err)
{
        char **paths = NULL;
        size_t n = 0;

        int r = cgroups_candidates(&paths, err);
        if (r < 0)
                return r;
        while (paths[n])
                n++;
        /* The first janitor also removes the control socket. */
        const char *socket = m->n_janitors == 0 && *m->control.path ? m->control.path : NULL;
        int pipe_fd;
        pid_t pid = n == 0 && !socket
                            ? 0
                            : janitor_start((const char *const *)paths, n, socket, &pipe_fd, err);
        cgroups_candidates_free(paths);
        if (pid <= 0)
                return pid;
        m->janitors[m->n_janitors].pid = pid;
        m->janitors[m->n_janitors++].pipe = pipe_fd;
        r = children_add(m->children, pid);
        return r < 0 ? error_errno(err, -r, "janitor") : 0;
}

static void finish_janitor(struct monitor *m)
{
        pid_t pid = m->janitors[--m->n_janitors].pid;

        janitor_finish(pid, m->janitors[m->n_janitors].pipe, monitor_has_upstreams(m));
        children_remove(m->children, pid);
}

static void log_degraded(const struct error *why)
{
        log_info(
                "no control group: the memory of sessions is counted every few milliseconds, and their processor time is not limited (degraded): %s",
                why->text);
}

static int open_cgroups(struct monitor *m, bool is_ours, struct error *why, struct error *err)
{
        size_t before = m->n_janitors;
        int r = start_janitor(m, err);
        if (r >= 0)
                r = cgroups_open(is_ours, &m->cgroups, why, err);
        if (r < 0)
                return r;
        /* Only at the start: it waits, and there is no loop yet. */
        if (cgroups_version(m->cgroups) == CGROUP_NONE && m->n_janitors > before &&
            !*m->control.path && !is_ours)
                finish_janitor(m);
        return 0;
}

/* Our present group, or that of the scope, is for our processes only. */
static int open_own(struct monitor *m, struct error *why, struct error *err)
{
        *why = (struct error){};
        m->cgroups = cgroups_free(m->cgroups);
        int r = open_cgroups(m, true, why, err);
        m->sandbox_host.cgroups = m->cgroups;
        return r;
}

int monitor_limits_init(struct monitor *m, struct error *err)
{
        struct error why = {}, no_scope = {};

        int r = open_cgroups(m, false, &why, err);
        if (r < 0 || cgroups_version(m->cgroups) != CGROUP_NONE)
                return r;
        if (!cgroups_want_delegation(m->cgroups)) {
                log_degraded(&why);
                return 0;
        }
        if (cgroup_scope_ask(cgroups_may_stay(m->cgroups), &m->scope_pid, &m->scope, &no_scope) <
            0) {
                if (cgroups_may_stay(m->cgroups))
                        r = open_own(m, &why, err);
                if (r < 0 || cgroups_version(m->cgroups) != CGROUP_NONE)
                        return r;
                error_context(&why, "%s", no_scope.text);
                log_degraded(&why);
                return 0;
        }
        m->scope_asked_ms = now_ms();
        r = children_add(m->children, m->scope_pid);
        return r < 0 ? error_errno(err, -r, "scope") : 0;
}

enum monitor_usage monitor_limits_usage(const struct monitor *m)
{
        enum cgroup_version version = cgroups_version(m->cgroups);

        return version == CGROUP_V1   ? MONITOR_USAGE_CGROUP1
               : version == CGROUP_V2 ? MONITOR_USAGE_CGROUP2
                                      : MONITOR_USAGE_PROC;
}

static bool is_janitor(const struct monitor *m, pid_t pid)
{
        for (size_t i = 0; i < m->n_janitors; i++) {
                if (m->janitors[i].pid == pid)
                        return true;
        }
        return false;
}

/* Appends the children of a process, except those that clean up behind us. Returns how many there are then. */
static size_t add_children(const struct monitor *m, pid_t of, pid_t pids[OWN_MAX], size_t n)
{
        size_t end = process_children(of, pids, n, OWN_MAX);

        for (size_t i = n; i < end; i++) {
                if (!is_janitor(m, pids[i]))
                        pids[n++] = pids[i];
        }
        return n;
}

/* Version 1 takes some 10 ms for it, in which no process of the machine is forked: not while the client waits for its
 * handshake. Later processes begin in that group. */
void monitor_limits_enter(struct monitor *m)
{
        pid_t pids[OWN_MAX] = {m->broker};
        struct error error = {};

        if (m->is_entered || m->scope_pid > 0 || cgroups_version(m->cgroups) == CGROUP_NONE)
                return;
        m->is_entered = true;
        size_t n = add_children(m, m->broker, pids, 1);
        n = add_children(m, getpid(), pids, n);
        if (cgroups_enter(m->cgroups, pids, n, &error) < 0)
                log_info("not all of Cloister's own processes are in their control group: %s",
                         error.text);
}

static int set_loop(struct monitor *m, struct error *err)
{
        int r = cgroups_set_loop(m->cgroups, m->base);

        return r < 0 ? error_errno(err, -r, "cgroups") : 0;
}

/* Takes the answer: 1 if we may have groups now, 0 if not. */
static int enter_scope(struct monitor *m, struct error *why, struct error *err)
{
        int r = cgroup_scope_take(m->scope_pid, take_fd(m->scope), why);

        children_remove(m->children, m->scope_pid);
        m->scope_pid = 0;
        if (r < 0 && !cgroups_may_stay(m->cgroups))
                return 0;
        r = open_own(m, why, err);
        return r < 0 ? r : 1;
}

static int enter_scope_of_sessions(struct monitor *m, struct error *why, struct error *err)
{
        int r = enter_scope(m, why, err);

        if (r > 0)
                r = monitor_sums_set(m, err);
        return r <= 0 ? r : set_loop(m, err);
}

static void on_scope_answer(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;
        struct error why = {}, error = {};

        if (enter_scope_of_sessions(m, &why, &error) < 0) {
                log_error("%s", error.text);
                event_base_loopbreak(m->base);
                return;
        }
        if (cgroups_version(m->cgroups) == CGROUP_NONE)
                log_degraded(&why);
        else
                log_debug("systemd gave a scope after %d ms", now_ms() - m->scope_asked_ms);
        struct monitor_event event = {.kind = MONITOR_LIMITS, .target = monitor_limits_usage(m)};
        monitor_send(m, &event, NULL, 0);
        if (monitor_is_server(m->options))
                monitor_limits_enter(m);
        profiles_bounds_known(m->profiles);
        monitor_upstreams_bounds_known(m);
        monitor_secrets_bounds_known(m);
}

int monitor_limits_settle(struct monitor *m, struct error *err)
{
        struct error why = {};
        int r = m->scope_pid > 0 ? enter_scope(m, &why, err) : 0;

        return r < 0 ? r : set_loop(m, err);
}

int monitor_limits_watch(struct monitor *m, struct error *err)
{
        if (m->scope_pid == 0)
                return set_loop(m, err);
        m->scope_answer = event_new(m->base, m->scope, EV_READ, on_scope_answer, m);
        if (!m->scope_answer || event_add(m->scope_answer, NULL) < 0)
                return error_errno(err, ENOMEM, "watch for a scope");
        return 0;
}

void monitor_limits_done(struct monitor *m)
{
        if (m->scope_answer)
                event_free(m->scope_answer);
        /* systemd never removes a scope whose only process ended before it was moved there:
         * wait until the child that asked has ended. */
        if (m->scope_pid > 0)
                cgroup_scope_take(m->scope_pid, m->scope, NULL);
        cgroups_free(m->cgroups);
        control_socket_close(&m->control);
        while (m->n_janitors > 0)
                finish_janitor(m);
}
