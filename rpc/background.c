/* One thread for what takes long. */
#include "rpc/background.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { STACK_SIZE = 256 * 1024, FREE_MIN = 4 * 1024 * 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_waiting = PTHREAD_COND_INITIALIZER;
static STAILQ_HEAD(, background_job) waiting = STAILQ_HEAD_INITIALIZER(waiting);
static bool has_thread;

static void run_one(struct background_job *job)
{
        static const uint64_t one = 1;

        job->state = BACKGROUND_RUNNING;
        pthread_mutex_unlock(&mutex);
        job->kind->run(job);
        pthread_mutex_lock(&mutex);
        job->state = BACKGROUND_RUN;
        /* The loop may free it from now on. */
        if (!job->cancelled) {
                (void)!write(job->fd, &one, sizeof(one));
                return;
        }
        pthread_mutex_unlock(&mutex);
        job->kind->free(job);
        pthread_mutex_lock(&mutex);
}

static void *serve(void *data)
{
        pthread_mutex_lock(&mutex);
        for (;;) {
                struct background_job *job = STAILQ_FIRST(&waiting);
                if (!job) {
                        pthread_cond_wait(&is_waiting, &mutex);
                        continue;
                }
                STAILQ_REMOVE_HEAD(&waiting, link);
                run_one(job);
        }
        return NULL;
}

/* Signals are the loop's. */
static bool start_thread(void)
{
        pthread_attr_t attributes;
        sigset_t all, before;
        pthread_t thread;

        if (pthread_attr_init(&attributes) != 0)
                return false;
        pthread_attr_setstacksize(&attributes, STACK_SIZE);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        bool started = pthread_create(&thread, &attributes, serve, NULL) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return started;
}

static void close_event(struct background_job *job)
{
        if (job->finished)
                event_free(job->finished);
        if (job->fd >= 0)
                close(job->fd);
        job->finished = NULL;
        job->fd = -1;
}

static void on_finished(evutil_socket_t fd, short what, void *data)
{
        struct background_job *job = data;

        close_event(job);
        job->kind->done(job);
}

static bool hand_over(struct background_job *job)
{
        pthread_mutex_lock(&mutex);
        if (!has_thread)
                has_thread = start_thread();
        if (has_thread) {
                STAILQ_INSERT_TAIL(&waiting, job, link);
                pthread_cond_signal(&is_waiting);
        }
        pthread_mutex_unlock(&mutex);
        return has_thread;
}

void background_start(struct background_job *job, const struct background_kind *kind,
                      struct event_base *base)
{
        *job = (struct background_job){.kind = kind, .state = BACKGROUND_WAITING};
        job->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (job->fd >= 0)
                job->finished = event_new(base, job->fd, EV_READ, on_finished, job);
        if (job->finished && event_add(job->finished, NULL) == 0 && hand_over(job))
                return;
        /* Neither a descriptor nor a thread is to be had. Callers rely on done() coming later. */
        close_event(job);
        kind->run(job);
        job->state = BACKGROUND_RUN;
        job->finished = event_new(base, -1, 0, on_finished, job);
        if (job->finished)
                event_active(job->finished, EV_TIMEOUT, 0);
        else
                kind->done(job);
}

void background_cancel(struct background_job *job)
{
        if (!job)
                return;
        pthread_mutex_lock(&mutex);
        job->cancelled = true;
        if (job->state == BACKGROUND_WAITING)
                STAILQ_REMOVE(&waiting, job, background_job, link);
        bool runs = job->state == BACKGROUND_RUNNING;
        close_event(job);
        pthread_mutex_unlock(&mutex);
        if (!runs)
                job->kind->free(job);
}

struct freeing {
        struct background_job job; /* first */
        void *block;
        yyjson_doc *doc;
};

static void free_all(struct background_job *job)
{
        struct freeing *freeing = (void *)job;

        yyjson_doc_free(freeing->doc);
        free(freeing->block);
        free(freeing);
}

static void run_nothing(struct background_job *job)
{
}

/* A cancelled job: it is freed in the thread, and the loop does not hear of it. */
static void free_later(void *block, yyjson_doc *doc)
{
        static const struct background_kind kind = {run_nothing, free_all, free_all};
        struct freeing *freeing = has_thread ? malloc(sizeof(*freeing)) : NULL;

        if (!freeing) {
                yyjson_doc_free(doc);
                free(block);
                return;
        }
        *freeing = (struct freeing){
                .job = {.kind = &kind, .cancelled = true, .fd = -1}, .block = block, .doc = doc};
        hand_over(&freeing->job);
}

void background_free(void *block, size_t n)
{
        if (block && n >= FREE_MIN)
                free_later(block, NULL);
        else
                free(block);
}

void background_free_json(yyjson_doc *doc)
{
        if (doc && yyjson_doc_get_read_size(doc) >= FREE_MIN)
                free_later(NULL, doc);
        else
                yyjson_doc_free(doc);
}
