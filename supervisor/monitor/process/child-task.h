/*
 * A short-lived child that answers one question.
 *
 * The monitor uses it for work that may block (a file system that does not answer) or that parses
 * bytes which others wrote: then only the child blocks or breaks. The child sends one reply of fixed
 * size, with up to CHILD_TASK_FDS descriptors, and exits. One that has not answered at the deadline
 * is killed. The monitor never waits for a child: it is reaped by an event.
 */
#pragma once

#include <event2/event.h>
#include <stddef.h>

#include "base/error.h"
#include "supervisor/monitor/process/children.h"

enum { CHILD_TASK_FDS = 4, CHILD_TASK_KEEP = 4 };

struct child_tasks;
struct child_task;

/* The tasks of one event loop. base and children are borrowed. */
int child_tasks_new(struct event_base *base, struct children *children, struct child_tasks **ret,
                    struct error *err);
/* Kills the children of all tasks, and waits for at most 100 ms. No done() is called. */
struct child_tasks *child_tasks_free(struct child_tasks *tasks);

struct child_task_spec {
        const char *name;          /* in ps and in errors */
        int keep[CHILD_TASK_KEEP]; /* descriptors that run() uses */
        size_t n_keep;
        size_t reply_size;
        unsigned int timeout_ms;
        /* Runs in the child, which is not dumpable, in its own session, with default signal
         * handlers, and with no descriptors but `keep`. Fills the reply, which is all zero, and the
         * descriptors to send. Returns the number of descriptors. */
        size_t (*run)(void *argument, void *reply, int fds[CHILD_TASK_FDS]);
        void *argument;
};

/*
 * Called once from the event loop, after the task was freed. error: the child did not answer in time
 * (ETIMEDOUT) or ended without an answer (EIO); NULL: reply and fds are what it sent. The contents
 * of the reply are the child's: check them. The callee takes the descriptors that it sets to -1.
 */
typedef void child_task_done(void *data, const struct error *error, void *reply,
                             int fds[CHILD_TASK_FDS], size_t n_fds);

int child_task_start(struct child_tasks *tasks, const struct child_task_spec *spec,
                     child_task_done *done, void *data, struct child_task **ret, struct error *err);

/* Before done(). */
pid_t child_task_pid(const struct child_task *task);

/* Kills the child; done() is not called. NULL is allowed. Returns NULL. */
struct child_task *child_task_cancel(struct child_task *task);

/* Without an event loop: waits for the answer, at most until the deadline. *n_fds descriptors are
 * owned by the caller. */
int child_task_run(const struct child_task_spec *spec, void *reply, int fds[CHILD_TASK_FDS],
                   size_t *n_fds, struct error *err);
