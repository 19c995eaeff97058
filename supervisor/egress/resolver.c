/* Looks names up in threads. */
#include "supervisor/egress/resolver.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

struct resolver_job {
        struct resolver *resolver;
        struct resolver_job *next;
        uint64_t key;
        char name[NETWORK_NAME_MAX + 1];
        uint16_t port;
        struct resolver_answer answer;
        resolver_done *done; /* of the loop; NULL: cancelled */
        void *data;
};

struct thread {
        struct resolver *resolver;
        uint64_t busy; /* a key; 0: it is idle */
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

static bool may_run(const struct resolver *r, uint64_t key)
{
        int n = 0;

        for (int i = 0; i < RESOLVER_THREADS; i++)
                n += r->threads[i].busy == key;
        return n < RESOLVER_EACH;
}

/* The first that may run now, or NULL. The mutex is held. */
static struct resolver_job *take_job(struct resolver *r)
{
        for (struct resolver_job **at = &r->waiting; *at; at = &(*at)->next) {
                struct resolver_job *job = *at;
                if (!may_run(r, job->key))
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

struct resolver_job *resolver_ask(struct resolver *r, uint64_t key, const char *name, uint16_t port,
                                  resolver_done *done, void *data)
{
        struct resolver_job *job = calloc(1, sizeof(*job));

        if (!job)
                return NULL;
        *job = (struct resolver_job){
                .resolver = r, .key = key, .port = port, .done = done, .data = data};
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
