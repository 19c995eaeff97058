/*
 * A sandbox in the monitor: the pidfd of its PID 1, its control group, the pipes of init. template.c
 * makes it in steps.
 */
#pragma once

#include "supervisor/monitor/template/sandbox-control.h"
#include "supervisor/monitor/template/stub.h"

/* Makes the pipes, the socketpair and the control group. handle: its number for the broker. id: its
 * uid in the template's user namespace. serial: of the request. */
int sandbox_new(const struct sandbox_host *host, uint32_t handle, uint32_t id, uint32_t serial,
                const struct limits *limits, struct sandbox **ret, struct error *err);

/* Kills its processes and waits for its PID 1. */
struct sandbox *sandbox_free(struct sandbox *sandbox);

uint32_t sandbox_handle(const struct sandbox *sandbox);
uint32_t sandbox_id(const struct sandbox *sandbox);
uint32_t sandbox_serial(const struct sandbox *sandbox);

/* The descriptors of SESSION_CREATE (borrowed). Close them when they were sent. */
const int *sandbox_inner_fds(const struct sandbox *sandbox);
/* Adds the descriptor of its control group, so that a template with these host ids can clone it into
 * it. False: there is none, and the process must be moved later. */
bool sandbox_lend_cgroup(struct sandbox *sandbox, uid_t uid, gid_t gid);
/* Whether its process was cloned into its control group. */
bool sandbox_is_placed(const struct sandbox *sandbox);
void sandbox_close_inner(struct sandbox *sandbox);

/* pid (from SCM_CREDENTIALS) is the PID 1 that the template has announced: checks that it is a new
 * child, and moves it into the control group. The sandbox keeps a reference to the stub. */
int sandbox_adopt(struct sandbox *sandbox, pid_t pid, struct stub *stub, struct error *err);
pid_t sandbox_pid(const struct sandbox *sandbox);
/* The listener of its proxy, which it owns until it is taken; -1: none. */
void sandbox_set_listener(struct sandbox *sandbox, int listener);
int sandbox_take_listener(struct sandbox *sandbox);

/* Call when PID 1 has exec'd init: opens the broker's descriptors (owned by the caller) and watches
 * for the end. */
int sandbox_open_outer(struct sandbox *sandbox, int fds[SESSION_FDS], struct error *err);

/* Asks for the number of its newest process or thread, and for the files that have changed; looks: also if that
 * takes long. */
int sandbox_ask_count(struct sandbox *sandbox, bool looks);

/* reminds: of the interrupt before (WORKER_REMIND). */
int sandbox_interrupt(struct sandbox *sandbox, bool reminds);
