/* The loop of the process that has the network. */
#include "supervisor/egress/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "supervisor/egress/listener.h"
#include "supervisor/egress/resolver.h"

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
        int fds[EGRESS_FDS];
        size_t count = EGRESS_FDS;

        ssize_t n = fd_receive(socket, &request, sizeof(request), fds, &count, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EPROTO)
                return;
        if (n <= 0) {
                event_base_loopbreak(e->base);
                return;
        }
        if (n == sizeof(request) && count == 0)
                (void)!write(socket, "", 1);
        else if (n != sizeof(request) || count != EGRESS_FDS)
                fd_close_many(fds, count);
        else if (egress_session_open(e, fds, &error) < 0)
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
