/*
 * Work that takes longer than the event loop may wait: parsing and copying large documents, in one
 * thread of the broker, one after the other.
 *
 * The thread is started with the first job. It inherits the filter and the Landlock domain of the
 * loop's thread. Where no thread can be started, or no descriptor is left, the job runs in the loop.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <yyjson.h>

struct background_job;

struct background_kind {
        /* In the thread: uses only what the job owns, and does not log. */
        void (*run)(struct background_job *job);
        /* In the loop, unless the job was cancelled. Takes ownership of the job. */
        void (*done)(struct background_job *job);
        /* Frees a job that was cancelled, in either thread. */
        void (*free)(struct background_job *job);
};

/* Embedded in what is to be done. Only background.c uses the members. */
struct background_job {
        const struct background_kind *kind;
        STAILQ_ENTRY(background_job) link;
        enum { BACKGROUND_WAITING, BACKGROUND_RUNNING, BACKGROUND_RUN } state;
        bool cancelled;
        struct event *finished; /* on fd */
        int fd;                 /* eventfd */
};

/* Runs the job; done() follows from the loop. */
void background_start(struct background_job *job, const struct background_kind *kind,
                      struct event_base *base);
/* done() is not called, and the job is freed as soon as it does not run. NULL is allowed. */
void background_cancel(struct background_job *job);

/* Frees memory of malloc(); a large block in the thread, because the kernel needs milliseconds for
 * it. NULL is allowed. */
void background_free(void *block, size_t n);
/* Frees a parsed document in the same way. */
void background_free_json(yyjson_doc *doc);
