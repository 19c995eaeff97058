/*
 * The boundary between broker and monitor: a table of messages of fixed size over a SOCK_SEQPACKET
 * pair.
 *
 * The broker sends struct monitor_request. The monitor answers each request with exactly one struct
 * monitor_event of the same serial, and sends other events with serial 0. Requests contain numbers
 * only: no path, no JSON, no descriptor. Events carry descriptors where it is noted below. Both ends
 * are from the same build, so that they share the compiler's layout; the sizes are asserted.
 */
#pragma once

#include <assert.h>
#include <errno.h>
#include <stdint.h>

#include "base/error.h"

/* The broker inherits its end of the pair at this number. */
enum { MONITOR_FD = 3 };

enum monitor_verb {
        MONITOR_SESSION_CREATE = 1, /* generation, target: index of the profile. -> SESSION_STARTED
                                       or FAILED (ESTALE: the generation is old, repeat it) */
        MONITOR_SESSION_INTERRUPT, /* target: session. SIGINT to the worker. number: 1: reminds it of
                                       the one before. -> DONE or FAILED */
        MONITOR_SESSION_KILL, /* target: session. SIGKILL to all its processes. -> DONE; SESSION_ENDED
                                       follows */
        MONITOR_UPSTREAM_START,  /* generation, target: index of the server. -> UPSTREAM_STARTED or
                                   FAILED */
        MONITOR_UPSTREAM_STOP,   /* target: instance. -> DONE; UPSTREAM_ENDED follows */
        MONITOR_SESSION_FREEZE,  /* target: session. Stops all its processes. -> DONE or FAILED
                                   (EOPNOTSUPP: no cgroup can freeze it) */
        MONITOR_SESSION_THAW,    /* target: session. Its processes run again. -> DONE or FAILED */
        MONITOR_SESSION_KEEP,    /* target: session, number: the pid of a copy of the worker in it,
                                    instead: of the copies that it replaces (docs/cells.md). -> DONE
                                    or FAILED (ENOMEM: all copies together are too large) */
        MONITOR_SESSION_RESTORE, /* target: session, number: pid of a copy, 0: the newest. Kills the
                                    worker. -> DONE or FAILED (ESRCH: there is no such copy);
                                    SESSION_CLEARED or SESSION_ENDED follows */
        MONITOR_SESSION_WAKE,    /* target: session, after SESSION_CLEARED. The copy is the worker.
                                 number: 1: it rolls back files first. -> DONE or FAILED */
        MONITOR_INSTALLER_START, /* generation, target: index of the profile, whose config allows it.
                                    Starts the program that installs packages (docs/packages.md).
                                    -> UPSTREAM_STARTED or FAILED; UPSTREAM_STOP ends it */
        MONITOR_SESSION_COUNT, /* target: session, number: 1: init looks at files also if that takes
                                  long. -> DONE or FAILED; SESSION_COUNTED follows, and what init has
                                  written to SESSION_CHANGES comes before it */
        MONITOR_SESSION_KEEP_ASIDE, /* as KEEP, but the copy takes the worker's place only if RESTORE
                                       names it, and ends with the worker else */
        MONITOR_SESSION_DROP, /* target: session, number: pid of a copy, which ends. -> DONE or
                                       FAILED */
        MONITOR_VERB_MAX,
};

enum { MONITOR_INSTEAD_MAX = 2 }; /* INIT_INSTEAD_MAX */

struct monitor_request {
        uint32_t verb;
        uint32_t serial; /* chosen by the broker, not 0 */
        uint32_t target;
        uint32_t generation;
        uint32_t number; /* of INTERRUPT, KEEP, RESTORE, WAKE, DROP and COUNT, else 0 */
        uint32_t instead[MONITOR_INSTEAD_MAX]; /* of KEEP; 0: none */
};
static_assert(sizeof(struct monitor_request) == 28, "crosses a process boundary");

enum monitor_event_kind {
        MONITOR_DONE = 1,
        MONITOR_FAILED,          /* error */
        MONITOR_SESSION_STARTED, /* target: session; fds: enum monitor_session_fd */
        MONITOR_SESSION_ENDED,   /* target: session; ended */
        MONITOR_SESSION_CLEARED, /* target: session, whose worker has ended and one of whose
                                     copies waits; ended; fds: counters from SESSION_CPU on */
        MONITOR_SESSION_GONE, /* target: session; copy: pid of a copy that has ended without a request */
        MONITOR_UPSTREAM_STARTED, /* target: instance; fds: stdin, stdout, stderr of the server */
        MONITOR_UPSTREAM_ENDED,   /* target: instance; wait_status */
        MONITOR_HELLO,       /* the first event; hello. Sent again, with a higher generation, when
                                the config was reloaded */
        MONITOR_CONFIG_FILE, /* after HELLO, hello.config_files times, in order; path; fds: sealed
                                memfd; target: 0, or it is the code of the published entry with
                                this number, from 1 */
        MONITOR_READY, /* after the last CONFIG_FILE: the broker isolates itself and starts to serve;
                          after a reload: the new generation is in use */
        MONITOR_LIMITS, /* before the first SESSION_STARTED; target: enum monitor_usage, which
                           replaces hello.usage: systemd has given us a control group or not */
        MONITOR_SESSION_NETWORK, /* before SESSION_STARTED of a session that has a network; target: session;
                                    fds: its listener (rpc/egress-messages.h) */
        MONITOR_SESSION_COUNTED, /* target: session; counted. After SESSION_COUNT, and before the DONE of
                                    SESSION_KEEP */
        MONITOR_SESSION_MEMORY, /* target: session, whose memory no control group counts; memory: bytes
                                    in use when the monitor looked last */
        MONITOR_EVENT_MAX,
};

/* The code of a FAILED session's error if the kernel or a policy around Cloister refused a step of
 * creating the sandbox, so that no sandbox can be created here. */
enum { MONITOR_CODE_NO_SANDBOX = ENOTRECOVERABLE };

/* Descriptors of SESSION_STARTED, in this order. */
enum monitor_session_fd {
        SESSION_RPC,
        SESSION_STDOUT,
        SESSION_STDERR,
        SESSION_CHANGES, /* rpc/file-changes.h */
        SESSION_CPU,     /* this and the next two: enum monitor_usage */
        SESSION_MEMORY_PEAK,
        SESSION_MEMORY,
        SESSION_FDS,
        SESSION_COUNTERS = SESSION_FDS - SESSION_CPU,
};

/* The format of a session's usage files (text, read from offset 0): CPU time, peak and current
 * memory. */
enum monitor_usage {
        MONITOR_USAGE_CGROUP1, /* cpuacct.usage: nanoseconds; memory.max_usage_in_bytes and
                                  memory.usage_in_bytes: bytes */
        MONITOR_USAGE_CGROUP2, /* cpu.stat: "usage_usec N" line; memory.peak and memory.current:
                                  bytes */
        MONITOR_USAGE_PROC,    /* /proc/PID/stat of the worker: fields 14 and 15 in ticks;
                                  /proc/PID/status: VmHWM and VmRSS */
        MONITOR_USAGE_MAX,
};

struct monitor_hello {
        uint32_t generation;
        uint32_t config_files;
        uint32_t mode; /* enum sandbox_mode */
        uint32_t reserved;
        uint32_t usage; /* enum monitor_usage */
        uint32_t sessions_max;
        uint64_t memory_max; /* bytes, of each session */
};

struct monitor_ended {
        int32_t wait_status; /* of the worker, as waitpid() gives it; -1 when init did not report
                                one */
        uint32_t oom_kills;  /* by the memory cgroup */
        uint64_t cpu_usec;
        uint64_t memory_peak; /* bytes; 0 where unknown */
        uint32_t copy;     /* of SESSION_CLEARED: pid of the copy that takes the worker's place */
        uint32_t last_pid; /* as init has reported the end: struct monitor_counted */
};

struct monitor_counted {
        uint32_t last_pid; /* in the sandbox: number of its newest process or thread; 0: unknown */
        uint32_t own;      /* of the last numbers, how many a copy of the worker has taken */
        uint64_t memory;   /* as in SESSION_MEMORY; 0: unknown */
};

struct monitor_event {
        uint32_t kind;
        uint32_t serial;
        uint32_t target;
        int32_t wait_status;
        union {
                struct monitor_hello hello;
                struct monitor_ended ended;
                uint32_t copy;
                struct monitor_counted counted;
                uint64_t memory;
                struct error error;
                char path[512];
        };
};
static_assert(sizeof(struct monitor_event) == 16 + 512, "crosses a process boundary");
