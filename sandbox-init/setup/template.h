/*
 * The template's side of making sessions: serves SESSION_CREATE on the control socket and clones.
 * Runs in cloister-worker, whose interpreter is booted by then; every function here uses raw
 * syscalls between clone and exec.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "rpc/sandbox-messages.h"

struct template_session;

/* What the embedding interpreter wants done around the fork of a worker (PyOS_BeforeFork and its
 * kin). */
struct template_hooks {
        void (*before_fork)(void);
        void (*after_fork_parent)(void);
        void (*after_fork_child)(void);
        /* Something to do while nobody asks for a session; returns whether there is more of it.
         * Whoever asks meanwhile waits for its return. */
        bool (*idle)(void); /* or NULL */
        /* Called when there is none of that any more: goes the way of a worker in a fork, to see
         * which pages that writes. Returns 1 in the fork, -EAGAIN when somebody asked meanwhile. */
        int (*rehearse)(struct template_session *ret); /* or NULL */
};

/* What a worker finds: everything else is closed. stdin, stdout and stderr are at 0, 1 and 2
 * already. */
struct template_session {
        int rpc_fd; /* at a high number, O_CLOEXEC */
        /* beside it: init writes a byte once it is non-dumpable and filtered. Nothing of the
         * guest's may be read before; -1: there is nothing to wait for */
        int release_fd;
};

/* What the monitor wanted; valid until serving, as a worker holds none of it. */
const struct template_plan *template_plan(void);

/* Tells the monitor that the template is booted, or why not. */
int template_ready(struct error *err);
void template_failed(const struct error *error);

/*
 * Serves until the control socket ends. Returns 1 in each worker, on the stack of this call,
 * filtered and ready for its first frame, and in the fork that rehearses; 0 in the template when
 * the socket ended; negative errno when the template can't go on.
 */
int template_serve(const struct template_hooks *hooks, struct template_session *ret,
                   struct error *err);
