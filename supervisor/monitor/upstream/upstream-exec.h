/* From the fork of a server's process to its exec: user, directory, limits, search in PATH. */
#pragma once

#include "base/error.h"
#include "supervisor/monitor/upstream/upstream-user.h"

/* Saves the limits, umask and oom score that the monitor started with; servers get them back.
 * Call it first. */
void upstream_remember(void);

/* Borrowed; made before the fork. */
struct upstream_launch {
        char *const *argv;
        char *const *env; /* its PATH is searched */
        const char *cwd;  /* or NULL */
        const struct upstream_user *user;
};

/* Becomes the user (permanently). Returns 0 or negative errno. */
int upstream_become(const struct upstream_user *user, struct error *err);

/* Returns only on failure. Descriptors 0, 1 and 2 are the server's already, all others are
 * O_CLOEXEC. */
int upstream_exec(const struct upstream_launch *launch, struct error *err);
