/* Connects to addresses that were checked. */
#include "supervisor/egress/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

struct dial {
        struct event_base *base;
        struct resolver_answer answer;
        size_t next;
        int fd;
        struct event *event;
        dial_done *done;
        void *data;
};

static socklen_t length_of(const struct sockaddr_storage *address)
{
        return address->ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                             : sizeof(struct sockaddr_in6);
}

static bool is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
        struct sockaddr_in x4, y4;
        struct sockaddr_in6 x6, y6;

        if (a->ss_family != b->ss_family)
                return false;
        if (a->ss_family == AF_INET) {
                memcpy(&x4, a, sizeof(x4));
                memcpy(&y4, b, sizeof(y4));
                return x4.sin_addr.s_addr == y4.sin_addr.s_addr;
        }
        memcpy(&x6, a, sizeof(x6));
        memcpy(&y6, b, sizeof(y6));
        return IN6_ARE_ADDR_EQUAL(&x6.sin6_addr, &y6.sin6_addr);
}

/* The kernel uses the address itself as the source of what goes to one of this machine's addresses. Connecting a
 * datagram socket sends nothing. */
static bool is_of_this_machine(const struct sockaddr_storage *address)
{
        struct sockaddr_storage source = {};
        socklen_t n = sizeof(source);

        _cleanup_close_ int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)address, length_of(address)) < 0 ||
            getsockname(fd, (struct sockaddr *)&source, &n) < 0)
                return false; /* connecting fails, too */
        return is_same_host(address, &source);
}

static bool may_reach(const struct egress_session *s, uint16_t port,
                      const struct sockaddr_storage *address)
{
        const struct sockaddr *a = (const struct sockaddr *)address;

        return network_rules_reach(s->rules, s->n_rules, a, port) &&
               (network_rules_contain(s->rules, s->n_rules, a, port) ||
                !is_of_this_machine(address));
}

void dial_filter(const struct egress_session *session, uint16_t port,
                 struct resolver_answer *answer)
{
        size_t kept = 0;

        for (size_t i = 0; i < answer->n; i++)
                if (may_reach(session, port, &answer->addresses[i]))
                        answer->addresses[kept++] = answer->addresses[i];
        answer->n = kept;
}

static void drop_socket(struct dial *d)
{
        if (d->event)
                event_free(d->event);
        d->event = NULL;
        if (d->fd >= 0)
                close(d->fd);
        d->fd = -1;
}

struct dial *dial_cancel(struct dial *d)
{
        if (d) {
                drop_socket(d);
                free(d);
        }
        return NULL;
}

static void finish(struct dial *d, int fd)
{
        dial_done *done = d->done;
        void *data = d->data;

        dial_cancel(d);
        done(data, fd, EGRESS_UNREACHABLE);
}

static void try_next(struct dial *d);

static void on_event(evutil_socket_t fd, short what, void *data)
{
        struct dial *d = data;
        int error = 0;
        socklen_t n = sizeof(error);

        if (what & EV_WRITE && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 &&
            error == 0) {
                finish(d, take_fd(d->fd));
                return;
        }
        try_next(d);
}

/* Returns whether to wait for an event of it. */
static bool begin(struct dial *d, const struct sockaddr_storage *address)
{
        struct timeval after = clock_timeval_ms(DIAL_MS);
        int on = 1;

        d->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (d->fd < 0 || evutil_make_socket_nonblocking(d->fd) < 0)
                return false;
        setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (connect(d->fd, (const struct sockaddr *)address, length_of(address)) < 0 &&
            errno != EINPROGRESS)
                return false;
        d->event = event_new(d->base, d->fd, EV_WRITE, on_event, d);
        return d->event && event_add(d->event, &after) == 0;
}

static void try_next(struct dial *d)
{
        drop_socket(d);
        while (d->next < d->answer.n) {
                if (begin(d, &d->answer.addresses[d->next++]))
                        return;
                drop_socket(d);
        }
        finish(d, -1);
}

static void on_begin(evutil_socket_t fd, short what, void *data)
{
        try_next(data);
}

struct dial *dial_start(struct event_base *base, const struct resolver_answer *answer,
                        dial_done *done, void *data)
{
        struct dial *d = calloc(1, sizeof(*d));

        if (!d)
                return NULL;
        *d = (struct dial){.base = base, .answer = *answer, .fd = -1, .done = done, .data = data};
        d->event = evtimer_new(base, on_begin, d);
        if (!d->event)
                return dial_cancel(d);
        event_active(d->event, EV_TIMEOUT, 0);
        return d;
}
