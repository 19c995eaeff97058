/* Verifies, by asking the kernel, that a sandbox has no network but what its profile gives it. */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "policy/config.h"

/*
 * Looks into the user and network namespace of a process (a sandbox's PID 1, ours) through a child
 * that joins them; takes a millisecond, one second at most. Returns 0 when there is only lo, with
 * no network: down and without a route, with loopback: up and every route on it; -EISCONN, with
 * what was found; else negative errno when it cannot be told (which is to be treated as a failure).
 */
int network_check(pid_t pid, enum config_network network, struct error *err);
