/*
 * Figures of the machine that other sessions change: how many processes it has, and how much memory and disk is free.
 *
 * The answer to sysinfo() has the memory limit of the session, all of it free, how long the session has existed, and one
 * process. That to statfs() and fstatfs() has the kernel's figures of the session's own file systems. Others have a fixed size;
 * if they are read-only, nothing is free, otherwise all.
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>

#include "rpc/sandbox-messages.h"
#include "sandbox-init/init/caller.h"

void figures_open(const struct init_hello *hello);

/* Whether the call with this number asks for them. */
bool figures_are_asked(int call);

/* Returns what the call returns. */
int figures_call(const struct caller *caller, const struct seccomp_data *data);
