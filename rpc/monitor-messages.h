/*
 * The boundary between broker and monitor: messages of fixed size over a SOCK_SEQPACKET pair. The table
 * is rpc/monitor-messages.def.
 *
 * The broker sends struct monitor_request. The monitor answers each request with exactly one struct
 * monitor_event of the same serial, and sends other events with serial 0. Requests contain numbers
 * only: no path, no JSON, no descriptor. Both ends are from the same build, so that they share the
 * compiler's layout; the sizes are asserted.
 */
#pragma once

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/fd.h"
#include "rpc/sandbox-messages.h"

/* The broker inherits its end of the pair at this number. */
enum { MONITOR_FD = 3 };

enum monitor_verb {
        MONITOR_VERB_NONE,
#define MONITOR_REQUEST(name, ...) MONITOR_##name,
#include "rpc/monitor-messages.def"
        MONITOR_VERB_MAX,
};

enum monitor_event_kind {
        MONITOR_EVENT_NONE,
#define MONITOR_EVENT(name, ...) MONITOR_##name,
#include "rpc/monitor-messages.def"
        MONITOR_EVENT_MAX,
};

/* Whose session or installer it is. */
struct monitor_principal {
        uint32_t id; /* 0: the only one */
        uint32_t of; /* how many there are */
        uint32_t
                memory_mib; /* of all its sessions; 0: an even share that others' idleness enlarges */
        uint32_t cpu_milli; /* the same */
};

struct monitor_request {
        uint32_t verb;
        uint32_t serial; /* chosen by the broker, not 0 */
        uint32_t target;
        uint32_t generation;
        uint32_t number;
        uint32_t instead[INIT_INSTEAD_MAX];
        struct monitor_principal principal; /* if target is a profile */
};
static_assert(sizeof(struct monitor_request) == 44, "crosses a process boundary");

/* `number` of SESSION_CREATE: how many ready sandboxes there are with the new one, of all and of its principal. */
enum { MONITOR_SPARES_BITS = 15 };

static inline uint32_t monitor_spares(size_t all, size_t own)
{
        const size_t most = (1U << MONITOR_SPARES_BITS) - 1;

        return (uint32_t)((all < most ? all : most) << MONITOR_SPARES_BITS |
                          (own < most ? own : most));
}

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
        uint32_t mode;      /* enum sandbox_mode */
        uint32_t log_level; /* enum log_level */
        uint32_t usage;     /* enum monitor_usage */
        uint32_t sessions_max;
        uint64_t memory_max;   /* bytes, of each session */
        uint64_t memory_total; /* bytes, of all */
};

/* The limit of memory that was reached. */
enum monitor_limit {
        MONITOR_LIMIT_SESSION,
        MONITOR_LIMIT_PRINCIPAL, /* all sessions of its principal together */
        MONITOR_LIMIT_TOTAL,     /* all sandboxes together */
};

struct monitor_ended {
        int32_t wait_status; /* of the worker, as waitpid() gives it; -1 when init did not report
                                one */
        uint32_t oom_kills;  /* by the memory cgroup */
        uint64_t cpu_usec;
        uint64_t memory_peak; /* bytes; 0 where unknown */
        uint32_t copy;     /* of SESSION_CLEARED: pid of the copy that takes the worker's place */
        uint32_t last_pid; /* as init has reported the end: struct monitor_counted */
        uint32_t limit;    /* enum monitor_limit, if oom_kills > 0 */
        uint64_t
                limit_bytes; /* that of all, or of the principal; 0: not known, or the session's own */
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
                uint32_t stopped;
                uint32_t held;
                struct monitor_counted counted;
                uint64_t memory;
                uint64_t lines;
                struct error error;
                char path[512];
                char line[512]; /* not checked */
        };
};
static_assert(sizeof(struct monitor_event) == 16 + 512, "crosses a process boundary");

/* An event as the broker receives it. */
struct monitor_message {
        struct monitor_request asked; /* the request that it answers; verb 0: none */
        struct monitor_event event;
        int fds[FD_MESSAGE_MAX]; /* owned by the receiver */
        size_t n_fds;
};

/* The part of the broker that a message is for. */
enum monitor_owner {
        MONITOR_FOR_LINK,
        MONITOR_FOR_SESSIONS,
        MONITOR_FOR_SERVERS,
        MONITOR_FOR_NETWORK,
        MONITOR_FOR_BROKER,
        MONITOR_FOR_PICTURES,
        MONITOR_FOR_SECRETS,
        MONITOR_FOR_JOURNAL,
        MONITOR_OWNER_MAX,
};

enum monitor_target {
        MONITOR_TARGET_NONE,
        MONITOR_TARGET_PROFILE, /* this and the next: of the request's generation */
        MONITOR_TARGET_SERVER,
        MONITOR_TARGET_SESSION,
        MONITOR_TARGET_PRINCIPAL, /* id of struct monitor_principal */
        MONITOR_TARGET_INSTANCE,
        MONITOR_TARGET_BRANCH,
        MONITOR_TARGET_ENTRY,
        MONITOR_TARGET_USAGE, /* enum monitor_usage */
};

/* "?" for a number that no message has. */
const char *monitor_verb_name(uint32_t verb);
const char *monitor_event_name(uint32_t kind);

/* The meaning of the target of a valid request. */
enum monitor_target monitor_request_target(const struct monitor_request *request);

/* Returns 0; -EPROTO: no request is like that; -EINVAL: a member is out of range; -ESRCH: a number is
 * not the pid of a copy. */
int monitor_request_check(const struct monitor_request *request);

/* Whether an event with n_fds descriptors may come now: as the answer to `asked`, whose verb is 0
 * if its serial is 0. */
bool monitor_event_check(const struct monitor_event *event, size_t n_fds,
                         const struct monitor_request *asked);

/* How many descriptors come with an event. */
size_t monitor_event_fds(const struct monitor_event *event);

/* Whether it is one of HELLO, CONFIG_FILE and READY. */
bool monitor_event_is_config(const struct monitor_event *event);

/* The part of the broker that a checked message is for. */
enum monitor_owner monitor_message_owner(const struct monitor_message *message);
