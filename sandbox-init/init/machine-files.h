/*
 * Files of /proc and /sys that tell about the machine, as the session sees it, and the processors that it may use.
 *
 * /proc has the option subset=pid, and there is no /sys: these names do not exist, and nothing can be mounted on them. The filter
 * sends each open() for reading without O_CLOEXEC to init. If the path is one of the table, the caller gets a new file with the
 * text; otherwise it makes the call itself. This decision protects nothing: the caller may change the path meanwhile.
 *
 * Processors are those of the affinity, but at most as many as limits.cpu, rounded up. Memory is limits.memory. Used are the private
 * pages of the session's processes, without its sleeping copies, and the files of /workspace. Everything else has a neutral value.
 * A text is made at most every 50 ms; its file is in /workspace, has no name, and counts for the limits of /workspace.
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>

#include "rpc/sandbox-messages.h"

/* Before init's filter is loaded. is_copy: whether a process is init or a sleeping copy. */
void machine_open(const struct init_hello *hello, bool (*is_copy)(pid_t pid));

/* Whether the call with this number is answered here. */
bool machine_is_asked(int call);

/* Returns CALL_GOES_ON, CALL_BEGUN if it has answered the call, or what the call returns. */
int machine_call(int listener, const struct seccomp_notif *request);
