/*
 * A scope unit of systemd's with our process in it and its control group delegated to us: how an
 * ordinary user gets limits on version 2, from his user manager, and root from the system's.
 *
 * The talking is done by a child, so that the monitor neither waits for it nor reads what comes
 * from a bus.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"

enum { CGROUP_SCOPE_SECONDS = 2 };

/*
 * Asks for one: forks a child (*pid), whose answer is ready when *answer (owned by the caller) is
 * readable, at the latest after CGROUP_SCOPE_SECONDS. -EOPNOTSUPP and why: there is nobody to ask,
 * or this build cannot.
 */
int cgroup_scope_ask(pid_t *pid, int *answer, struct error *why);

/* Reads the answer (waiting for it where it is not there yet) and reaps the child: 0 when we are in
 * the scope, so that cgroups_open() finds a group of our own. Closes the descriptor. */
int cgroup_scope_take(pid_t pid, int answer, struct error *why);

/* Where a bus may be, in the order to try them; each at most `size` bytes with its NUL. An ordinary
 * user's (uid not 0): the address that a session gives, the runtime directory's, the well-known
 * one. Returns how many of `most`. */
enum { CGROUP_SCOPE_ADDRESSES = 3, CGROUP_SCOPE_ADDRESS_SIZE = 512 };
size_t cgroup_scope_addresses(uid_t uid, const char *session_address, const char *runtime_directory,
                              char (*ret)[CGROUP_SCOPE_ADDRESS_SIZE], size_t most);
