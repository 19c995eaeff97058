/* Verifies, by asking the kernel, that a sandbox has no network: only lo, down, and no routes. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/*
 * Looks into the user and network namespace of a process (a sandbox's PID 1, ours) through a child
 * that joins them; takes a millisecond, one second at most. Returns 0 when there is only lo, down,
 * and no route; -EISCONN, with what was found; else negative errno when it cannot be told (which is
 * to be treated as a failure).
 */
int network_check(pid_t pid, struct error *err);
