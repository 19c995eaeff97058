/*
 * One session, cloned from the template. Everything here runs between clone3 and exec, on memory
 * shared with the sleeping template: no allocation, no locks, no logging.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "rpc/sandbox-messages.h"

struct session {
        struct session_plan plan;
        const struct template_plan *template; /* its mounts, its network */
        int fds[SESSION_FD_MAX];
        struct error error; /* set by PID 1 when it could not become init */
        struct init_hello hello;
        int rpc_fd;       /* in the worker: its channel */
        int release_fd;   /* in the worker: init writes one byte, non-dumpable and filtered */
        int listener_fd;  /* in the worker: until init has taken it; -1: none */
        int proc_fd;      /* for init: lists all processes */
        int locks_fd;     /* for init: /proc/locks of its pid namespace */
        int last_pid_fd;  /* for init: ns_last_pid; negative: this kernel has none */
        int workspace_fd; /* for init: the tmpfs of /workspace */
        bool has_network; /* the template is in a network namespace that no living session has */
};

/*
 * Clones PID 1 of the session, which forks the worker and execs cloister-init. Returns once PID 1
 * has exec'd or ended: 0, or negative errno with session->error. Returns 1 in the worker.
 */
int session_clone(struct session *session);
