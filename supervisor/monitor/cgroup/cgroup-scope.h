/*
 * A systemd scope unit with our process in it and its control group delegated to us. With it an
 * ordinary user gets limits on version 2 from the user manager, and root from the system manager.
 *
 * A child talks to the bus: the monitor neither waits for it nor parses its messages.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

enum { CGROUP_SCOPE_SECONDS = 2 };

/*
 * may_stay: our present unit will do if it has Delegate=yes.
 *
 * Forks a child that asks (*pid). Its answer is complete when *answer (owned by the caller) is
 * readable, after CGROUP_SCOPE_SECONDS at the latest. -EOPNOTSUPP and *why: there is no manager, or
 * this build has no libsystemd.
 */
int cgroup_scope_ask(bool may_stay, pid_t *pid, int *answer, struct error *why);

/* Reads the answer, waiting for it if necessary, reaps the child and closes the descriptor. 0:
 * we are in the scope, or in our own unit, so that cgroups_open() finds a delegated group. */
int cgroup_scope_take(pid_t pid, int answer, struct error *why);

/* The addresses of a bus in the order to try them, each at most `size` bytes with its NUL. For
 * an ordinary user (uid not 0): the session's, the one in the runtime directory, the well-known
 * one. Returns their number. */
enum { CGROUP_SCOPE_ADDRESSES = 3, CGROUP_SCOPE_ADDRESS_SIZE = 512 };
size_t cgroup_scope_addresses(uid_t uid, const char *session_address, const char *runtime_directory,
                              char (*ret)[CGROUP_SCOPE_ADDRESS_SIZE], size_t most);
