/* A sandbox for those who have one: its owner in the monitor, and what may be done to it at any time. */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "rpc/monitor-messages.h"
#include "rpc/sandbox-messages.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/process/child-task.h"
#include "supervisor/monitor/process/children.h"

struct sandbox;

/* The parts of the monitor that a sandbox needs; borrowed. */
struct sandbox_host {
        struct event_base *base;
        struct children *children;
        struct cgroups *cgroups;
        /* PID 1 has been reaped. The callee frees the sandbox. */
        void (*ended)(void *data, struct sandbox *sandbox, const struct monitor_ended *how);
        void *data;
        struct child_tasks *tasks; /* NULL: oom_score_adj of copies is left as it is */
        /* The answer to sandbox_keep(): 0 or negative errno. */
        void (*kept)(void *data, struct sandbox *sandbox, uint32_t serial, int r);
        /* A copy has ended by itself. */
        void (*gone)(void *data, struct sandbox *sandbox, pid_t pid);
        /* The worker has ended, and only init and copies are left; how->copy takes its place. fds: its
         * counters, owned by the callee. */
        void (*cleared)(void *data, struct sandbox *sandbox, const struct monitor_ended *how,
                        int fds[SESSION_COUNTERS]);
        /* The answer to sandbox_ask_count(). Also comes before kept() if init has answered. */
        void (*counted)(void *data, struct sandbox *sandbox, const struct monitor_counted *counted);
};

/* Where no control group counts its memory: what the monitor counts it with. */
struct sandbox_memory {
        int proc;     /* its /proc: all processes of its pid namespace; -1: none can be read */
        int sockets;  /* /proc/net/sockstat of its network namespace, or -1 */
        uint64_t max; /* bytes */
};

/* Whether the process with this pid in the sandbox sleeps as a copy of its worker. */
bool sandbox_is_copy(const struct sandbox *sandbox, pid_t pid);
void sandbox_kill(struct sandbox *sandbox);

/* Stops all of its processes, or lets them run again. -EOPNOTSUPP where no control group can
 * freeze. SIGKILL ends frozen ones. */
int sandbox_freeze(struct sandbox *sandbox);
int sandbox_thaw(struct sandbox *sandbox);
