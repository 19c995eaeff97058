/*
 * Messages of fixed size between the monitor and the processes of a sandbox, over the template's
 * control socket, a SOCK_SEQPACKET pair: the set-up of the template (struct template_plan) and of
 * each session (struct session_plan). Monitor, cloister-init and cloister-worker are of one build.
 *
 *     monitor                    template
 *       TEMPLATE_PLAN + fds  ->             mounts the image, loads its filter, boots CPython
 *                            <-  TEMPLATE_READY | TEMPLATE_FAILED
 *       SESSION_CREATE + fds ->             clone3, into its cgroup where it can
 *                            <-  SESSION_HERE, from the new PID 1, its pid in SCM_CREDENTIALS
 *       SESSION_GO           ->             for PID 1: the monitor has checked it and put it into its cgroup
 *                            <-  SESSION_MADE | SESSION_FAILED, once PID 1 exec'd
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/limits.h"
#include "policy/template-link.h"

enum sandbox_mode { SANDBOX_ROOTLESS, SANDBOX_CAPABLE, SANDBOX_ROOT, SANDBOX_MODE_MAX };

enum {
        SANDBOX_UID = 1000, /* uid and gid inside */

        TEMPLATE_CONTROL_FD = 3, /* the template's end of its control socket, across its execs */

        /* Descriptors of TEMPLATE_PLAN, in this order. */
        TEMPLATE_FD_IMAGE = 0, /* O_PATH directory: the image's root */
        TEMPLATE_FD_WORKER,    /* sealed memfd: cloister-worker, or cloister-module by the link */
        TEMPLATE_FD_INIT,      /* sealed memfd: cloister-init */
        TEMPLATE_FD_TEMPLATE_FILTER, /* sealed memfds: arrays of struct sock_filter */
        TEMPLATE_FD_WORKER_FILTER,
        TEMPLATE_FD_INIT_FILTER,
        TEMPLATE_FD_COUNT, /* then one a mount, in the order of the plan: the source, O_PATH */

        /* Descriptors of SESSION_CREATE, in this order. */
        SESSION_FD_RPC = 0, /* the worker's end of the stream socketpair */
        SESSION_FD_STDOUT,  /* write ends of pipes */
        SESSION_FD_STDERR,
        SESSION_FD_REPORT,  /* init writes struct init_report */
        SESSION_FD_CONTROL, /* init reads bytes, enum init_command; EOF ends the session */
        SESSION_FD_COUNT,
        SESSION_FD_CGROUP = SESSION_FD_COUNT, /* O_PATH, where the plan says so: its cgroup */
        SESSION_FD_MAX,

        /* Where PID 1 finds its own. */
        INIT_REPORT_FD = 3,
        INIT_RELEASE_FD = 4, /* init writes one byte: the worker may read its channel */
        INIT_CONTROL_FD = 5,
        INIT_FILTER_FD = 6,
};

enum template_message_kind {
        TEMPLATE_PLAN = 1,
        TEMPLATE_READY,
        TEMPLATE_FAILED,
        SESSION_CREATE,
        SESSION_HERE,
        SESSION_GO,
        SESSION_MADE,
        SESSION_FAILED,
};

enum init_command { INIT_INTERRUPT = 'i' };

/* Exit status of a worker that could not enter its sandbox; its stderr says why. */
enum { SANDBOX_EXIT_SETUP = 114 };

struct init_report {
        int32_t wait_status; /* of the worker, as waitpid() gives it */
};

enum { TEMPLATE_MOUNTS_MAX = 16, TEMPLATE_PRELOAD_SIZE = 2048 };

struct template_mount {
        char target[240]; /* absolute path inside */
        uint32_t writable;
        uint32_t reserved;
};

struct template_plan {
        char python[256];    /* the interpreter's path inside the image: argv[0], sys.executable */
        char libpython[256]; /* path inside the image; "" for TEMPLATE_LINK_MODULE */
        char preload[TEMPLATE_PRELOAD_SIZE]; /* names of modules, one a line */
        uint32_t mode;                       /* enum sandbox_mode */
        uint32_t link;                       /* enum template_link */
        uint32_t loopback;                   /* 1: lo is brought up in each session */
        uint32_t rlimits;                    /* 1: no control group counts memory */
        uint32_t n_mounts;
        struct template_mount mounts[TEMPLATE_MOUNTS_MAX]; /* none below another */
};

struct session_plan {
        uint32_t id; /* of the session in the template's user namespace: 0 when there is but one */
        uint32_t rlimits; /* 1: bound memory and pids by rlimits, no cgroup does */
        uint32_t reserved;
        uint32_t cgroup; /* 1: one more descriptor, of the cgroup to be cloned into */
        struct limits limits;
};

struct template_message {
        uint32_t kind;
        uint32_t reserved;
        union {
                struct template_plan plan;
                struct session_plan session;
                struct error error;
        };
};
