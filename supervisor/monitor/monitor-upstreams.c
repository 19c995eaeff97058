/*
 * The monitor's upstream servers: started by index, named by instance afterwards.
 *
 * A request to start one is answered when its exec has succeeded or failed, or after
 * UPSTREAM_EXEC_SECONDS. A server that failed keeps its slot until its reaper has ended, which a
 * process in an uninterruptible sleep can delay.
 */
#include "supervisor/monitor/monitor-upstreams.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/config/expand.h"
#include "policy/config/server.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/upstream/upstream-access.h"

static struct monitor_upstream *find_free_slot(struct monitor *m, size_t first, size_t n)
{
        for (size_t i = first; i < first + n; i++) {
                if (!m->upstreams[i].upstream)
                        return &m->upstreams[i];
        }
        return NULL;
}

static struct monitor_upstream *by_instance(struct monitor *m, uint32_t instance)
{
        for (size_t i = 0; i < ARRAY_SIZE(m->upstreams); i++) {
                if (m->upstreams[i].upstream && m->upstreams[i].instance == instance)
                        return &m->upstreams[i];
        }
        return NULL;
}

static void release(struct monitor_upstream *u)
{
        if (u->exec)
                event_free(u->exec);
        if (u->end)
                event_free(u->end);
        fd_close_many(u->fds, ARRAY_SIZE(u->fds));
        children_remove(u->monitor->children, u->pid);
        upstream_free(u->upstream);
        *u = (struct monitor_upstream){};
}

/* The exec succeeded or failed, or did neither in time. */
static void answer(struct monitor_upstream *u)
{
        struct monitor_event event = {.kind = MONITOR_UPSTREAM_STARTED, .serial = u->serial};
        struct monitor *m = u->monitor;
        struct error error = {};

        u->serial = 0;
        if (upstream_exec_result(u->upstream, &error) < 0) {
                upstream_kill(u->upstream);
                monitor_send_failed(m, event.serial, &error);
        } else {
                u->instance = event.target = ++m->last_instance;
                monitor_send(m, &event, u->fds, ARRAY_SIZE(u->fds));
        }
        fd_close_many(u->fds, ARRAY_SIZE(u->fds));
}

static void on_exec(evutil_socket_t fd, short what, void *data)
{
        answer(data);
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct monitor_upstream *u = data;
        struct monitor_event event = {.kind = MONITOR_UPSTREAM_ENDED};

        /* Both descriptors became readable at once, and this event was the first. */
        if (u->serial != 0)
                answer(u);
        event.target = u->instance;
        event.wait_status = upstream_reap(u->upstream);
        struct monitor *m = u->monitor;
        release(u);
        if (event.target != 0)
                monitor_send(m, &event, NULL, 0);
}

static const char *lookup(const char *name)
{
        return getenv(name);
}

/* The expanded config is freed at once, so that the values of variables are nowhere but in the
 * server's own environment. */
static int start_expanded(struct monitor *m, const struct config_server *configured,
                          struct monitor_upstream *u, struct error *err)
{
        struct config_server server;

        int r = config_server_copy(configured, &server);
        if (r < 0)
                return error_errno(err, -r, "expand its config");
        r = config_server_expand(&server, lookup, err);
        if (r >= 0 && server.url)
                r = upstream_access_prepare(&server, m->access_program, err);
        if (r >= 0)
                r = upstream_start(&server, &m->user, &u->upstream, u->fds, err);
        config_server_done(&server);
        return r;
}

static int watch(struct monitor_upstream *u)
{
        const struct timeval deadline = {.tv_sec = UPSTREAM_EXEC_SECONDS};
        struct event_base *base = u->monitor->base;

        u->exec = event_new(base, upstream_exec_fd(u->upstream), EV_READ, on_exec, u);
        u->end = event_new(base, upstream_pidfd(u->upstream), EV_READ, on_end, u);
        if (!u->exec || !u->end || event_add(u->exec, &deadline) < 0 || event_add(u->end, NULL) < 0)
                return -ENOMEM;
        return children_add(u->monitor->children, u->pid);
}

static void prepare(struct monitor *m, uint32_t serial, struct monitor_upstream *u)
{
        *u = (struct monitor_upstream){.monitor = m, .serial = serial, .fds = {-1, -1, -1}};
}

/* It has been started. */
static int follow(struct monitor_upstream *u, struct error *err)
{
        u->pid = upstream_pid(u->upstream);
        int r = watch(u);
        if (r < 0) {
                release(u);
                return error_errno(err, -r, "watch the server");
        }
        return 0;
}

static int start_by_index(struct monitor *m, const struct monitor_request *request,
                          struct error *err)
{
        if (request->target >= m->config->n_servers)
                return error_set(err, EINVAL, "there is no server %u", request->target);
        struct config_server *server = &m->config->servers[request->target];
        if (server->problem)
                return error_set(err, EINVAL, "%s", server->problem);
        if (server->disabled)
                return error_set(err, EINVAL, "it is disabled");
        if (server->url && !m->has_http)
                return error_set(
                        err, EPERM,
                        "Cloister was started without servers over HTTP, and may reach none: start it again");
        struct monitor_upstream *u = find_free_slot(m, 0, MONITOR_UPSTREAMS_MAX);
        if (!u)
                return error_set(err, EAGAIN, "%d servers run already", MONITOR_UPSTREAMS_MAX);
        prepare(m, request->serial, u);
        int r = start_expanded(m, server, u, err);
        return r < 0 ? r : follow(u, err);
}

int monitor_upstream_start_installer(struct monitor *m, const struct config_server *program,
                                     uint32_t serial, struct error *err)
{
        struct monitor_upstream *u = find_free_slot(m, MONITOR_UPSTREAMS_MAX,
                                                    MONITOR_INSTALLERS_MAX);

        if (!u)
                return error_set(err, EAGAIN, "%d installations are running already",
                                 MONITOR_INSTALLERS_MAX);
        prepare(m, serial, u);
        int r = upstream_start(program, &m->user, &u->upstream, u->fds, err);
        return r < 0 ? r : follow(u, err);
}

void monitor_upstream_start(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};

        if (start_by_index(m, request, &error) < 0)
                monitor_send_failed(m, request->serial, &error);
}

void monitor_upstream_stop(struct monitor *m, const struct monitor_request *request)
{
        struct monitor_upstream *u = by_instance(m, request->target);

        /* Where it has ended already, UPSTREAM_ENDED has been sent. */
        if (u)
                upstream_stop(u->upstream);
        monitor_send_done(m, request->serial);
}

/* The reapers outlive the monitor and end their trees, SIGTERM first. */
void monitor_upstreams_done(struct monitor *m)
{
        for (size_t i = 0; i < ARRAY_SIZE(m->upstreams); i++) {
                struct monitor_upstream *u = &m->upstreams[i];
                if (!u->upstream)
                        continue;
                upstream_stop(u->upstream);
                event_free(u->exec);
                event_free(u->end);
        }
}
