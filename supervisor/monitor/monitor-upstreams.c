/* The monitor's upstream servers: started by index, told of by instance. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/monitor-internal.h"

static struct monitor_upstream *free_slot(struct monitor *m)
{
        for (size_t i = 0; i < MONITOR_UPSTREAMS_MAX; i++) {
                if (!m->upstreams[i].upstream)
                        return &m->upstreams[i];
        }
        return NULL;
}

static struct monitor_upstream *by_instance(struct monitor *m, uint32_t instance)
{
        for (size_t i = 0; i < MONITOR_UPSTREAMS_MAX; i++) {
                if (m->upstreams[i].upstream && m->upstreams[i].instance == instance)
                        return &m->upstreams[i];
        }
        return NULL;
}

static void release(struct monitor_upstream *u)
{
        if (u->end)
                event_free(u->end);
        children_remove(u->monitor->children, u->pid);
        upstream_free(u->upstream);
        *u = (struct monitor_upstream){};
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct monitor_upstream *u = data;
        struct monitor_event event = {.kind = MONITOR_UPSTREAM_ENDED, .target = u->instance};

        (void)fd;
        (void)what;
        event.wait_status = upstream_reap(u->upstream);
        struct monitor *m = u->monitor;
        release(u);
        monitor_send(m, &event, NULL, 0);
}

static const char *lookup(const char *name)
{
        return getenv(name);
}

/* Expanded for this start only, so that what a variable holds is nowhere but in the server's own
 * environment. */
static int start_expanded(struct monitor *m, const struct config_server *configured,
                          struct monitor_upstream *u, int fds[3], struct error *err)
{
        struct config_server server;

        int r = config_server_copy(configured, &server);
        if (r < 0)
                return error_errno(err, -r, "expand its config");
        r = config_server_expand(&server, lookup, err);
        if (r >= 0)
                r = upstream_start(&server, &m->user, &u->upstream, fds, err);
        config_server_done(&server);
        return r;
}

static int start(struct monitor *m, const struct config_server *configured,
                 struct monitor_upstream *u, int fds[3], struct error *err)
{
        int r = start_expanded(m, configured, u, fds, err);
        if (r < 0)
                return r;
        u->monitor = m;
        u->instance = ++m->last_instance;
        u->pid = upstream_pid(u->upstream);
        r = children_add(m->children, u->pid);
        if (r >= 0) {
                u->end = event_new(m->base, upstream_pidfd(u->upstream), EV_READ, on_end, u);
                if (!u->end || event_add(u->end, NULL) < 0)
                        r = -ENOMEM;
        }
        if (r < 0) {
                fd_close_many(fds, 3);
                release(u);
                return error_errno(err, -r, "watch the server");
        }
        return 0;
}

static int start_by_index(struct monitor *m, const struct monitor_request *request,
                          struct monitor_upstream **ret, int fds[3], struct error *err)
{
        if (request->target >= m->config->n_servers)
                return error_set(err, EINVAL, "there is no server %u", request->target);
        struct config_server *server = &m->config->servers[request->target];
        if (server->problem)
                return error_set(err, EINVAL, "%s", server->problem);
        if (server->disabled || !server->command)
                return error_set(err, EINVAL, "it is disabled, or not started by a command");
        struct monitor_upstream *u = free_slot(m);
        if (!u)
                return error_set(err, EAGAIN, "%d servers run already", MONITOR_UPSTREAMS_MAX);
        int r = start(m, server, u, fds, err);
        if (r < 0)
                return r;
        *ret = u;
        return 0;
}

void monitor_upstream_start(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};
        struct monitor_upstream *u = NULL;
        int fds[3] = {-1, -1, -1};

        if (monitor_refuse_stale(m, request))
                return;
        int r = start_by_index(m, request, &u, fds, &error);
        if (r < 0) {
                monitor_send_failed(m, request->serial, &error);
                return;
        }
        struct monitor_event event = {
                .kind = MONITOR_UPSTREAM_STARTED, .serial = request->serial, .target = u->instance};
        monitor_send(m, &event, fds, ARRAY_SIZE(fds));
        fd_close_many(fds, ARRAY_SIZE(fds));
}

void monitor_upstream_stop(struct monitor *m, const struct monitor_request *request)
{
        struct monitor_upstream *u = by_instance(m, request->target);

        /* One that has just ended by itself is told of by its own event. */
        if (u)
                upstream_stop(u->upstream);
        monitor_send_done(m, request->serial);
}

/* The reapers end their trees on their own, politely; nobody waits for that here. */
void monitor_upstreams_done(struct monitor *m)
{
        for (size_t i = 0; i < MONITOR_UPSTREAMS_MAX; i++) {
                if (m->upstreams[i].upstream)
                        upstream_stop(m->upstreams[i].upstream);
                if (m->upstreams[i].end)
                        event_free(m->upstreams[i].end);
        }
}
