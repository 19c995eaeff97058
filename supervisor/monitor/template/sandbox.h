/*
 * A sandbox in the monitor: the pidfd of its PID 1, its control group, the pipes of init. template.c
 * makes it in steps.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "rpc/monitor-messages.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/process/child-task.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/template/networks.h"
#include "supervisor/monitor/template/stub.h"

struct sandbox;

/* The parts of the monitor that a sandbox needs; borrowed. */
struct sandbox_host {
        struct event_base *base;
        struct children *children;
        struct cgroups *cgroups;
        /* PID 1 has been reaped. The callee frees the sandbox. */
        void (*ended)(void *data, struct sandbox *sandbox, const struct monitor_ended *how);
        void *data;
        struct child_tasks *tasks; /* NULL: shared pages of copies count in each */
        /* The answer to sandbox_keep(): 0 or negative errno. */
        void (*kept)(void *data, struct sandbox *sandbox, uint32_t serial, int r);
        /* A copy has ended by itself. */
        void (*gone)(void *data, struct sandbox *sandbox, pid_t pid);
        /* The worker has ended, and only init and copies are left; how->copy takes its place. fds: its
         * counters, owned by the callee. */
        void (*cleared)(void *data, struct sandbox *sandbox, const struct monitor_ended *how,
                        int fds[SESSION_COUNTERS]);
        /* So many of its processes were stopped (sandbox_rest()). */
        void (*stopped)(void *data, struct sandbox *sandbox, uint32_t n);
        /* The answer to INIT_SWEEP. */
        void (*swept)(void *data, struct sandbox *sandbox);
        /* Answers sandbox_hold(): all have stood still; or, if has_run, code of the sandbox has not. */
        void (*held)(void *data, struct sandbox *sandbox, uint32_t number, bool has_run);
        /* The answer to INIT_COUNT. Also comes before kept() if init has answered. */
        void (*counted)(void *data, struct sandbox *sandbox, const struct monitor_counted *counted);
        /* Whether the group of a principal has reached its limit of memory since the last call for it. */
        bool (*has_reached_sum)(void *data, uint32_t principal);
};

/* The files with which the monitor counts its memory. */
struct sandbox_memory {
        int proc; /* its /proc: all processes of its pid namespace; -1: a control group counts them */
        int sockets;  /* /proc/net/sockstat of its network namespace, or -1 */
        uint64_t max; /* bytes */
};

/* Makes the pipes, the socketpair and the control group. handle: its number for the broker. id: its
 * uid in the template's user namespace. serial: of the request. principal: whose group it is in; 0: none. */
int sandbox_new(const struct sandbox_host *host, uint32_t handle, uint32_t id, uint32_t serial,
                uint32_t principal, const struct limits *limits, struct sandbox **ret,
                struct error *err);

/* Kills its processes and waits for its PID 1. */
struct sandbox *sandbox_free(struct sandbox *sandbox);

uint32_t sandbox_handle(const struct sandbox *sandbox);
uint32_t sandbox_id(const struct sandbox *sandbox);
uint32_t sandbox_serial(const struct sandbox *sandbox);

uint32_t sandbox_principal(const struct sandbox *sandbox);
bool sandbox_is_up(const struct sandbox *sandbox); /* made, and not killed yet */

/* The descriptors of SESSION_CREATE (borrowed). Close them when they were sent. */
const int *sandbox_inner_fds(const struct sandbox *sandbox);
/* Adds the descriptor of its control group, so that a template with these host ids can clone it into
 * it. False: there is none, and the process must be moved later. */
bool sandbox_has_share(const struct sandbox *sandbox); /* of the processors, by its control group */
bool sandbox_lend_cgroup(struct sandbox *sandbox, uid_t uid, gid_t gid);
/* Whether its process was cloned into its control group. */
bool sandbox_is_placed(const struct sandbox *sandbox);
void sandbox_close_inner(struct sandbox *sandbox);

/* pid (from SCM_CREDENTIALS) is the PID 1 that the template has announced: checks that it is a new
 * child, and in no network namespace of another session, and moves it into the control group. The sandbox keeps references to
 * the stub and to the networks (NULL: its network namespace is not kept for another session). */
int sandbox_adopt(struct sandbox *sandbox, pid_t pid, struct stub *stub, struct networks *networks,
                  struct error *err);
pid_t sandbox_pid(const struct sandbox *sandbox);
/* The listener of its proxy, which it owns until it is taken; -1: none. */
void sandbox_set_listener(struct sandbox *sandbox, int listener);
int sandbox_take_listener(struct sandbox *sandbox);

/* Call when PID 1 has exec'd init: opens the broker's descriptors (owned by the caller) and watches
 * for the end. */
int sandbox_open_outer(struct sandbox *sandbox, int fds[SESSION_FDS], struct error *err);

/* Sends a request to init (rpc/sandbox-messages.def). 0 or negative errno. */
int sandbox_ask_init(struct sandbox *sandbox, enum init_verb verb, pid_t pid);

/* NULL: a control group counts it, or the session has not started. */
const struct sandbox_memory *sandbox_memory(const struct sandbox *sandbox);

/* Kills it, or restores it if there is a copy and the limit is its own, and reports that this limit was reached. */
void sandbox_kill_for_memory(struct sandbox *sandbox, enum monitor_limit limit);

/* Bytes that its control group counts; 0: there is none. */
uint64_t sandbox_memory_now(const struct sandbox *sandbox);

bool sandbox_is_out_of_memory(const struct sandbox *sandbox); /* until that is reported */

/* Whether the process with this pid in the sandbox sleeps as a copy of its worker. */
bool sandbox_is_copy(const struct sandbox *sandbox, pid_t pid);
void sandbox_kill(struct sandbox *sandbox);

/* SESSION_REST: ms of processor time, SANDBOX_REST_UNLIMITED, or 0. Where no control group can do it, init does. */
enum { SANDBOX_REST_UNLIMITED = INT32_MAX };
int sandbox_rest(struct sandbox *sandbox, uint32_t ms);

/* SESSION_HOLD: stops all of its processes until the number 0. Init does it where no control group can, and then code could run
 * nevertheless: host->held() tells that. It is called once all have stopped, and again for each call with a new number. */
int sandbox_hold(struct sandbox *sandbox, uint32_t number);

/* Stops all of its processes, or lets them run again. -EOPNOTSUPP where no control group can
 * freeze. SIGKILL ends frozen ones. */
int sandbox_freeze(struct sandbox *sandbox, bool frozen);
