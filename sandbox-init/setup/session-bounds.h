/*
 * What bounds the processes of a session: resource limits, capabilities, ids. Each returns a
 * negative errno with *err, and the session is then given up.
 */
#pragma once

#include "base/error.h"
#include "rpc/sandbox-messages.h"

/* For the process and all that come of it. Hard limits go down only. */
int bounds_set_limits(const struct session_plan *plan, struct error *err);

/* What no process of the session will have again: empties the bounding set, locks securebits. */
int bounds_drop_capabilities(struct error *err);

/* Uid and gid SANDBOX_UID, for good and without capabilities. Dumpable; a parent death signal is to
 * be set anew. */
int bounds_become_user(struct error *err);
