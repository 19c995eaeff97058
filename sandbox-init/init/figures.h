/*
 * Figures of the machine that other sessions change: how many processes it has, and how much memory and disk is free.
 *
 * The answer to sysinfo() has the memory limit of the session, all of it free, how long the session has existed, and one
 * process. That to statfs() and fstatfs() has the kernel's figures of the session's own file systems. Others have a fixed size;
 * if they are read-only, nothing is free, otherwise all.
 *
 * A file system of the host may not answer, because of a network or a FUSE server. So a child of init looks up each path, and asks
 * each file system that is not the session's own. init serves other calls meanwhile.
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>

#include "rpc/sandbox-messages.h"
#include "sandbox-init/init/caller.h"

void figures_open(const struct init_hello *hello);

/* Whether the call with this number asks for them. */
bool figures_are_asked(int call);

/* id: of the notification. Returns what the call returns, CALL_WAITS or CALL_BEGUN. */
int figures_call(const struct caller *caller, const struct seccomp_data *data, uint64_t id);

/* The notification whose call this child of init makes. Returns whether there is one. */
bool figures_find(pid_t pid, uint64_t *id);
/* That child has ended. Returns what the call returns. is_valid: the caller still waits. */
int figures_end(pid_t pid, int status, bool is_valid);
