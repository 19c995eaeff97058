/*
 * The secrets of profiles: read when a session is first requested, before it is made.
 *
 * cloister-access reads them (supervisor/access/secrets.h), started as a stdio server is. Those for arguments go to the broker through
 * MONITOR_SECRETS_READ; those with "to" are read apart, for a cloister-inject (monitor-inject.h), whose socket the broker gets by
 * MONITOR_INJECT_STARTED once it is ready. If a value is missing, the error is the answer to each request that waits, and the next request tries again.
 */
#pragma once

#include <stdbool.h>

#include "rpc/monitor-messages.h"

struct monitor;

typedef void monitor_secrets_again_fn(struct monitor *m, const struct monitor_request *request);

/* Returns true if a SESSION_CREATE has to wait for the secrets of its profile: again() is called when they were read, or the request
 * was answered. */
bool monitor_secrets_hold(struct monitor *m, const struct monitor_request *request,
                          monitor_secrets_again_fn *again);
/* The monitor has found out how it bounds processes. */
void monitor_secrets_bounds_known(struct monitor *m);
/* The config files were read again: so are the secrets, when a session is requested. */
void monitor_secrets_forget(struct monitor *m);
void monitor_secrets_done(struct monitor *m);
