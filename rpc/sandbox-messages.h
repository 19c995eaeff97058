/*
 * Messages of fixed size between the monitor and the processes of a sandbox, over the template's
 * control socket, a SOCK_SEQPACKET pair, and between the monitor and init. The table is
 * rpc/sandbox-messages.def. Monitor, cloister-init and cloister-worker are of one build.
 */
#pragma once

#include <assert.h>
#include <signal.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/language.h"
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
        TEMPLATE_FD_DRAFT, /* empty memfds, for an image of its heap (worker/memory/image.h) */
        TEMPLATE_FD_HEAP,
        TEMPLATE_FD_COUNT, /* then one per mount, in the order of the plan: the source, O_PATH */

        /* Descriptors of SESSION_CREATE, in this order. */
        SESSION_FD_RPC = 0, /* the worker's end of the stream socketpair */
        SESSION_FD_STDOUT,  /* write ends of pipes */
        SESSION_FD_STDERR,
        SESSION_FD_REPORT,  /* init writes struct init_report */
        SESSION_FD_CONTROL, /* init reads struct init_request; EOF ends the session */
        SESSION_FD_CHANGES, /* init writes to the broker: rpc/file-changes.h */
        SESSION_FD_COUNT,
        SESSION_FD_CGROUP = SESSION_FD_COUNT, /* O_PATH, if the plan has cgroup set: its cgroup */
        SESSION_FD_EXTRA_MAX = 2, /* that, and the network namespace, if the plan has network set */
        SESSION_FD_MAX = SESSION_FD_COUNT + SESSION_FD_EXTRA_MAX,

        /* Where PID 1 finds its own. */
        INIT_REPORT_FD = 3,
        /* A socket. The worker sends struct init_hello, with the number of its filter's listener. init writes
         * one byte: the worker may read its channel. */
        INIT_RELEASE_FD = 4,
        INIT_CONTROL_FD = 5,
        INIT_FILTER_FD = 6,
        INIT_CHANGES_FD = 7,
        INIT_WORKSPACE_FD = 8, /* the tmpfs of /workspace, without what is mounted in it */
        /* A directory that lists all processes of the pid namespace, also those that the sandbox's own /proc
         * hides. */
        INIT_PROC_FD = 9,
        INIT_LOCKS_FD = 10, /* /proc/locks of the pid namespace */
        INIT_SYNCS_FD =
                11, /* memfd of SYNCS_SIZE, shared by all sessions of the template: when the next sync may continue */
        INIT_LAST_PID_FD = 12, /* ns_last_pid of the pid namespace; closed: this kernel has none */
};

enum { SYNCS_SIZE = 4096 };

/* oom_score_adj: the kernel ends a worker before its copies. */
#define OOM_SCORE_WORKER "1000"
#define OOM_SCORE_COPY   "500"

enum template_message_kind {
        TEMPLATE_MESSAGE_NONE,
#define TEMPLATE_MESSAGE(name, ...) name,
#include "rpc/sandbox-messages.def"
        TEMPLATE_MESSAGE_MAX,
};

/* Requests to init and its reports (docs/cells.md). Each is written and read whole: pipe(7), PIPE_BUF.
 * Pids are those of the sandbox's pid namespace. */
enum init_verb {
        INIT_VERB_NONE,
#define INIT_REQUEST(name, ...) INIT_##name,
#include "rpc/sandbox-messages.def"
        INIT_VERB_MAX,
};

enum init_report_kind {
        INIT_REPORT_NONE,
#define INIT_REPORT(name, ...) INIT_##name,
#include "rpc/sandbox-messages.def"
};

enum {
        INIT_COPIES_MAX = 24, /* sleeping copies of a session */
        INIT_INSTEAD_MAX = 2, /* that one copy can replace */
        INIT_DEVICES = 3,     /* file systems of a session's own */
        INIT_MOUNTS = 16,     /* directories of the host with locks, at most */
};

/* The first message to init, from the worker. */
struct init_hello {
        uint64_t devices[INIT_DEVICES];
        uint64_t mounts
                [INIT_MOUNTS]; /* ids (STATX_MNT_ID) of those whose plan has locks set; 0: none */
        uint64_t listener;     /* the worker's descriptor of its filter's listener; 0: none */
        uint64_t memory;       /* bytes that the session may use */
        uint32_t cpu_milli;    /* thousandths of a processor; 0: no limit */
        uint32_t
                asks; /* 1: the filter sends also the calls with FILTER_ASK_OR_ALLOW to its listener */
        uint32_t shares; /* that of struct session_plan */
};

struct init_request {
        uint32_t verb;
        int32_t pid;
        int32_t instead[INIT_INSTEAD_MAX]; /* 0: none */
};

struct init_report {
        uint32_t kind;
        int32_t value, pid;
        int32_t last; /* the number of the newest process or thread; 0: unknown */
};

/* From init to the worker, whose cell has not ended after SIGINT: it looks whether SIGINT has had its effect. Ignored where
 * nobody handles it. */
enum { WORKER_REMIND = SIGURG };

/* From init to the chosen copy. It answers the first by making itself a process group of its own. */
enum {
        COPY_CLEAR = SIGUSR1,    /* all others have ended */
        COPY_WAKE = SIGUSR2,     /* be the worker */
        COPY_ROLL_BACK = SIGHUP, /* be the worker, after rolling /workspace back */
};

/* Exit status of a worker that could not enter its sandbox; its stderr says why. */
enum { SANDBOX_EXIT_SETUP = 114 };

enum {
        TEMPLATE_MOUNTS_MAX = 17, /* those of a profile, and its packages */
        TEMPLATE_PRELOAD_SIZE = 2048
};

struct template_mount {
        char target[240]; /* absolute path inside */
        uint32_t writable;
        uint32_t locks; /* 1: those that code takes on its files exclude programs of the host */
};

struct template_plan {
        char python[256];    /* the interpreter's path inside the image: argv[0], sys.executable */
        char libpython[256]; /* path inside the image; "" for TEMPLATE_LINK_MODULE */
        char preload[TEMPLATE_PRELOAD_SIZE]; /* names of modules, one per line */
        uint32_t mode;                       /* enum sandbox_mode */
        uint32_t link;                       /* enum template_link */
        uint32_t language;                   /* enum language */
        uint32_t loopback;                   /* 1: lo is brought up in each session */
        uint32_t proxy;                      /* 1: and has a proxy, which the environment names */
        uint32_t rlimits;                    /* 1: no control group counts memory */
        uint32_t no_speculation;             /* 1: of stores and of indirect branches */
        uint32_t
                asks; /* 1: init can answer the calls with FILTER_ASK_OR_ALLOW; set by the template */
        uint32_t n_mounts;
        struct template_mount mounts[TEMPLATE_MOUNTS_MAX]; /* none below another */
};

struct session_plan {
        uint32_t id; /* of the session in the template's user namespace: 0 when there is but one */
        uint32_t rlimits; /* 1: bound memory and pids by rlimits, no cgroup does */
        uint32_t
                network; /* 1: one more descriptor, the last: the network namespace to be cloned in */
        uint32_t cgroup; /* 1: one more descriptor, of the cgroup to be cloned into */
        uint32_t
                shares; /* 1: no cgroup of its own has a share of the processors, but each session (setsid(2)) in it has one */
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
