/* The process that has the network: its loop, and the connections of sessions that it accepts. */
#include "supervisor/egress/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/share.h"
#include "supervisor/egress/buffers.h"
#include "supervisor/egress/connection.h"
#include "supervisor/egress/inject.h"
#include "supervisor/egress/resolver.h"

enum { ACCEPT_AT_ONCE = 16, ACCEPT_AGAIN_MS = 100 };

static void close_session(struct egress_session *s)
{
        struct egress_session **at = &s->egress->sessions;

        while (*at && *at != s)
                at = &(*at)->next;
        if (*at)
                *at = s->next;
        egress_connections_end(s);
        if (s->principal)
                egress_session_count(s, -(ssize_t)s->n_connections);
        event_del(&s->accepting);
        event_del(&s->end);
        event_del(&s->tick);
        egress_session_unmap(s);
        egress_inject_free(s->inject);
        int fds[] = {s->listener, s->leash};
        fd_close_many(fds, ARRAY_SIZE(fds));
        free(s);
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
        struct egress_session *s = data;

        egress_connections_wake(s);
        event_add(&s->accepting, NULL);
}

static bool may_accept(const struct egress_session *s)
{
        return s->n_connections < EGRESS_CONNECTIONS_EACH &&
               share_allows(s->principal->n_connections, s->egress->n_connections,
                            s->egress->connections_max, 1);
}

static void wait_to_accept(struct egress_session *s)
{
        struct timeval after = clock_timeval_ms(ACCEPT_AGAIN_MS);

        event_del(&s->accepting);
        event_add(&s->tick, &after);
}

static void on_accept(evutil_socket_t fd, short what, void *data)
{
        struct egress_session *s = data;

        for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
                if (!may_accept(s)) {
                        wait_to_accept(s);
                        return;
                }
                int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (client < 0 &&
                    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
                        wait_to_accept(s);
                if (client < 0)
                        return;
                if (egress_connection_open(s, client) < 0)
                        continue;
                egress_session_count(s, 1);
        }
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        close_session(data);
}

/* Takes ownership of the descriptors. An error ends nothing: the session has no network. */
static int open_session(struct egress *egress, const int *fds, size_t n, struct error *err)
{
        struct egress_session *s = calloc(1, sizeof(*s));

        if (!s) {
                for (size_t i = 0; i < n; i++)
                        close(fds[i]);
                return error_errno(err, ENOMEM, "session");
        }
        *s = (struct egress_session){.egress = egress,
                                     .key = ++egress->last_key,
                                     .listener = fds[EGRESS_FD_LISTENER],
                                     .leash = fds[EGRESS_FD_LEASH],
                                     .filled_us = clock_us()};
        event_assign(&s->accepting, egress->base, s->listener, EV_READ | EV_PERSIST, on_accept, s);
        event_assign(&s->end, egress->base, s->leash, EV_READ, on_end, s);
        evtimer_assign(&s->tick, egress->base, on_tick, s);
        buffers_start(s->listener);
        int r = egress_session_map(s, fds[EGRESS_FD_PAGE], err);
        close(fds[EGRESS_FD_PAGE]);
        if (n == EGRESS_FDS_MAX) {
                int e = egress_inject_new(&s->inject, fds[EGRESS_FD_INJECT_LIST],
                                          fds[EGRESS_FD_INJECT], r < 0 ? &(struct error){} : err);
                close(fds[EGRESS_FD_INJECT_LIST]);
                r = r < 0 ? r : e;
        }
        if (r >= 0)
                r = fd_set_nonblocking(s->listener, 1);
        if (r >= 0 && (event_add(&s->accepting, NULL) < 0 || event_add(&s->end, NULL) < 0))
                r = error_errno(err, ENOMEM, "events");
        if (r < 0) {
                close_session(s);
                return r;
        }
        s->next = egress->sessions;
        egress->sessions = s;
        return 0;
}

enum { DESCRIPTORS_EACH = 4 }; /* of a connection, and room for sessions */

static size_t connections_max(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 ||
            files.rlim_cur >= (rlim_t)EGRESS_CONNECTIONS_MAX * DESCRIPTORS_EACH)
                return EGRESS_CONNECTIONS_MAX;
        return files.rlim_cur / DESCRIPTORS_EACH;
}

static void on_request(evutil_socket_t socket, short what, void *data)
{
        struct egress *e = data;
        struct egress_open request;
        struct error error = {};
        int fds[EGRESS_FDS_MAX];
        size_t count = EGRESS_FDS_MAX;

        ssize_t n = fd_receive(socket, &request, sizeof(request), fds, &count, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EPROTO)
                return;
        if (n <= 0) {
                event_base_loopbreak(e->base);
                return;
        }
        if (n == sizeof(request) && count == 0)
                (void)!write(socket, "", 1);
        else if (n != sizeof(request) || (count != EGRESS_FDS && count != EGRESS_FDS_MAX))
                fd_close_many(fds, count);
        else if (open_session(e, fds, count, &error) < 0)
                log_error("network of a session: %s", error.text);
}

void egress_serve(int socket)
{
        struct egress e = {.base = loop_new(), .connections_max = connections_max()};
        struct error error = {};

        if (!e.base || resolver_new(&e.resolver, e.base, &error) < 0) {
                log_error("the network of sessions: no memory");
                return;
        }
        e.requests = event_new(e.base, socket, EV_READ | EV_PERSIST, on_request, &e);
        if (e.requests && event_add(e.requests, NULL) == 0)
                loop_run(e.base);
        /* The kernel frees the rest with the process. */
}
