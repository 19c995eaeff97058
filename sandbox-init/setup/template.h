/*
 * The template's side of making sessions: receives SESSION_CREATE on the control socket and clones.
 * Runs in cloister-worker once its interpreter is initialized.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "rpc/sandbox-messages.h"

struct template_session;

/* Callbacks of the embedding interpreter. */
struct template_hooks {
        /* Around the fork of a worker: PyOS_BeforeFork() and so on. */
        void (*before_fork)(void);
        void (*after_fork_parent)(void);
        void (*after_fork_child)(void);
        /* Does a part of the work that an idle template does, such as one import. Returns whether
         * there is more. A request for a session that comes meanwhile waits until it returns. */
        bool (*idle)(void); /* or NULL */
};

/* The descriptors of a new worker, beside 0, 1 and 2. All others are closed. */
struct template_session {
        int rpc_fd;     /* at a high number, O_CLOEXEC */
        int release_fd; /* init writes a byte once it is non-dumpable and filtered. The channel must
                         * not be read before. -1: there is nothing to wait for */
        int listener_fd;      /* of the filter, until init has taken it; -1: none */
        struct limits limits; /* of the session */
        bool rlimits;         /* no control group counts its memory */
};

/* The plan of the monitor. Call before serving: workers do not have its descriptor. */
const struct template_plan *template_plan(void);

/* Kills and reaps whatever code of the image has forked, and releases the locks that it has taken. Call before template_ready(): the monitor
 * refuses a template that has left a process. */
int template_end_others(struct error *err);

/* Report to the monitor that the interpreter is initialized, or why not. */
int template_ready(struct error *err);
void template_failed(const struct error *error);

/*
 * Makes sessions until the control socket is closed. Returns 1 in each worker, which is confined by
 * then, with its descriptors in *ret; 0 in the template when the socket is closed; negative errno
 * when the template must end.
 */
int template_serve(const struct template_hooks *hooks, struct template_session *ret,
                   struct error *err);
