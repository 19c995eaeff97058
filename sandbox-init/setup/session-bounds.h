/*
 * Resource limits, capabilities and ids of the processes of a session. Each function returns 0, or
 * negative errno with *err; the session then fails.
 */
#pragma once

#include "base/error.h"
#include "rpc/sandbox-messages.h"

/* For the process and its descendants. Hard limits are only lowered. */
int bounds_set_limits(const struct session_plan *plan, struct error *err);

/* In the session's own user namespace: no further namespaces, and no objects of inotify and
 * fanotify: the kernel charges them to the host uid as well, and with them a session could observe what
 * others read of the image that they share. *mounts is the limit of mount namespaces, open
 * for writing, to be set to 0 after the last mount: a detached mount counts as one. */
int bounds_limit_user(int *mounts, struct error *err);

/* Empties the capability bounding set and locks the securebits. */
int bounds_drop_capabilities(struct error *err);

/* Becomes uid and gid SANDBOX_UID, irrevocably and without capabilities. Stays dumpable; PDEATHSIG
 * is cleared. */
int bounds_become_user(struct error *err);
