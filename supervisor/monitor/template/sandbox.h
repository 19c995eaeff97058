/*
 * One sandbox as the monitor holds it: its PID 1 by pidfd, its control group, init's pipes. Made in
 * steps by template.c, ended here.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "rpc/monitor-messages.h"
#include "rpc/sandbox-messages.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/template/stub.h"

struct sandbox;

/* What a sandbox needs of the monitor; borrowed. */
struct sandbox_host {
        struct event_base *base;
        struct children *children;
        struct cgroups *cgroups;
        /* PID 1 has been reaped; the sandbox is freed by the callee. */
        void (*ended)(void *data, struct sandbox *sandbox, const struct monitor_ended *how);
        void *data;
};

/* Makes the pipes, the socketpair and the control group. handle names it towards the broker, id is
 * its uid in the template's namespace. serial: of the request that asked for it. */
int sandbox_new(const struct sandbox_host *host, uint32_t handle, uint32_t id, uint32_t serial,
                const struct limits *limits, struct sandbox **ret, struct error *err);

/* Kills what there is of it and waits for its PID 1. */
struct sandbox *sandbox_free(struct sandbox *sandbox);

uint32_t sandbox_handle(const struct sandbox *sandbox);
uint32_t sandbox_id(const struct sandbox *sandbox);
uint32_t sandbox_serial(const struct sandbox *sandbox);

/* The descriptors of SESSION_CREATE (borrowed), and their release once they are sent. */
const int *sandbox_inner_fds(const struct sandbox *sandbox);
/* Adds that of its control group, for a template of these host ids to clone it there: true. False:
 * it will have to be moved. */
bool sandbox_lend_cgroup(struct sandbox *sandbox, uid_t uid, gid_t gid);
/* Whether it was cloned into its control group. */
bool sandbox_is_placed(const struct sandbox *sandbox);
void sandbox_close_inner(struct sandbox *sandbox);

/* pid, by the kernel's word, is the PID 1 just announced: verified, put into the control group. The
 * sandbox holds the stub, whose namespaces it lives in. */
int sandbox_adopt(struct sandbox *sandbox, pid_t pid, struct stub *stub, struct error *err);
pid_t sandbox_pid(const struct sandbox *sandbox);

/* It has exec'd init: opens what the broker gets (owned by the caller) and
 * watches for its end. */
int sandbox_open_outer(struct sandbox *sandbox, int fds[SESSION_FDS], struct error *err);

int sandbox_interrupt(struct sandbox *sandbox);
void sandbox_kill(struct sandbox *sandbox);

/* Stops all of its processes, or lets them run again. -EOPNOTSUPP where no control group can
 * freeze. SIGKILL ends frozen ones. */
int sandbox_freeze(struct sandbox *sandbox);
int sandbox_thaw(struct sandbox *sandbox);
