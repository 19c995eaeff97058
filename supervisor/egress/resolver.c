/* Looks names up in threads, and connects to addresses that were checked. */
#include "supervisor/egress/resolver.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/share.h"
#include "supervisor/egress/buffers.h"

struct resolver_job {
        struct resolver *resolver;
        struct resolver_job *next;
        uint64_t key, principal;
        char name[NETWORK_NAME_MAX + 1];
        uint16_t port;
        struct resolver_answer answer;
        resolver_done *done; /* of the loop; NULL: cancelled */
        void *data;
};

struct thread {
        struct resolver *resolver;
        uint64_t busy; /* a key; 0: it is idle */
        uint64_t principal;
};

struct resolver {
        pthread_mutex_t mutex; /* of what follows */
        pthread_cond_t work;
        struct resolver_job *waiting, *ready;
        struct thread threads[RESOLVER_THREADS];
        int wake[2]; /* a pipe: there are ready jobs */
        struct event *readable;
        unsigned n_threads;
};

static void add_address(struct resolver_answer *answer, const struct addrinfo *found, uint16_t port)
{
        struct sockaddr_storage *to = &answer->addresses[answer->n];
        in_port_t in_order = htons(port);

        if (answer->n == RESOLVER_ADDRESSES_MAX || found->ai_addrlen > sizeof(*to))
                return;
        memcpy(to, found->ai_addr, found->ai_addrlen);
        if (to->ss_family == AF_INET)
                ((struct sockaddr_in *)to)->sin_port = in_order;
        else if (to->ss_family == AF_INET6)
                ((struct sockaddr_in6 *)to)->sin6_port = in_order;
        else
                return;
        answer->n++;
}

static void look_up(struct resolver_job *job)
{
        const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
        struct addrinfo *found = NULL;

        if (getaddrinfo(job->name, NULL, &wanted, &found) != 0)
                return;
        for (const struct addrinfo *one = found; one; one = one->ai_next)
                add_address(&job->answer, one, job->port);
        freeaddrinfo(found);
}

static bool may_run(const struct resolver *r, const struct resolver_job *job)
{
        size_t of_key = 0, own = 0, all = 0;

        for (int i = 0; i < RESOLVER_THREADS; i++) {
                const struct thread *thread = &r->threads[i];
                of_key += thread->busy == job->key;
                own += thread->busy != 0 && thread->principal == job->principal;
                all += thread->busy != 0;
        }
        return of_key < RESOLVER_EACH &&
               (job->principal == 0 || share_allows(own, all, RESOLVER_THREADS, 1));
}

/* The first that may run now, or NULL. The mutex is held. */
static struct resolver_job *take_job(struct resolver *r)
{
        for (struct resolver_job **at = &r->waiting; *at; at = &(*at)->next) {
                struct resolver_job *job = *at;
                if (!may_run(r, job))
                        continue;
                *at = job->next;
                return job;
        }
        return NULL;
}

static void *run(void *data)
{
        struct thread *me = data;
        struct resolver *r = me->resolver;

        pthread_mutex_lock(&r->mutex);
        for (;;) {
                struct resolver_job *job = take_job(r);
                if (!job) {
                        pthread_cond_wait(&r->work, &r->mutex);
                        continue;
                }
                me->busy = job->key;
                me->principal = job->principal;
                pthread_mutex_unlock(&r->mutex);
                look_up(job);
                pthread_mutex_lock(&r->mutex);
                me->busy = 0;
                job->next = r->ready;
                r->ready = job;
                pthread_cond_broadcast(&r->work); /* one of the same key may run now */
                (void)!write(r->wake[1], "", 1);  /* full: it is awake already */
        }
        return NULL;
}

static void add_thread(struct resolver *r)
{
        struct thread *thread = &r->threads[r->n_threads];
        sigset_t all, before;
        pthread_t id;

        thread->resolver = r;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (pthread_create(&id, NULL, run, thread) == 0) {
                pthread_detach(id);
                r->n_threads++;
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void on_ready(evutil_socket_t fd, short what, void *data)
{
        struct resolver *r = data;
        char bytes[256];

        (void)!read(fd, bytes, sizeof(bytes));
        pthread_mutex_lock(&r->mutex);
        struct resolver_job *job = take_ptr(r->ready);
        pthread_mutex_unlock(&r->mutex);
        while (job) {
                struct resolver_job *next = job->next;
                if (job->done)
                        job->done(job->data, &job->answer);
                free(job);
                job = next;
        }
}

int resolver_new(struct resolver **ret, struct event_base *base, struct error *err)
{
        struct resolver *r = calloc(1, sizeof(*r));

        if (!r)
                return error_errno(err, ENOMEM, "resolver");
        pthread_mutex_init(&r->mutex, NULL);
        pthread_cond_init(&r->work, NULL);
        if (pipe2(r->wake, O_CLOEXEC | O_NONBLOCK) < 0) {
                free(r);
                return error_errno(err, errno, "resolver");
        }
        r->readable = event_new(base, r->wake[0], EV_READ | EV_PERSIST, on_ready, r);
        if (!r->readable || event_add(r->readable, NULL) < 0)
                return error_errno(err, ENOMEM, "resolver"); /* the process ends */
        *ret = r;
        return 0;
}

static void append(struct resolver_job **list, struct resolver_job *job)
{
        while (*list)
                list = &(*list)->next;
        *list = job;
}

struct resolver_job *resolver_ask(struct resolver *r, const struct egress_session *session,
                                  const char *name, uint16_t port, resolver_done *done, void *data)
{
        struct resolver_job *job = calloc(1, sizeof(*job));

        if (!job)
                return NULL;
        *job = (struct resolver_job){.resolver = r,
                                     .key = session->key,
                                     .principal = session->principal->id,
                                     .port = port,
                                     .done = done,
                                     .data = data};
        snprintf(job->name, sizeof(job->name), "%s", name);
        if (r->n_threads < RESOLVER_THREADS)
                add_thread(r);
        pthread_mutex_lock(&r->mutex);
        append(&r->waiting, job);
        pthread_cond_signal(&r->work);
        pthread_mutex_unlock(&r->mutex);
        return job;
}

struct resolver_job *resolver_cancel(struct resolver_job *job)
{
        if (!job)
                return NULL;
        struct resolver *r = job->resolver;
        pthread_mutex_lock(&r->mutex);
        for (struct resolver_job **at = &r->waiting; *at; at = &(*at)->next) {
                if (*at != job)
                        continue;
                *at = job->next;
                free(take_ptr(job));
                break;
        }
        pthread_mutex_unlock(&r->mutex);
        if (job)
                job->done = NULL; /* a thread has it: on_ready() frees it */
        return NULL;
}

/* ---- connecting ---- */

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
        buffers_start(d->fd);
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
