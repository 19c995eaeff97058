/* The last steps of a server's process before it is the server: its user, directory, limits, then
 * exec by PATH. */
#pragma once

#include "base/error.h"
#include "supervisor/monitor/upstream/upstream.h"

/* All borrowed, made before the fork. */
struct upstream_launch {
        char *const *argv;
        char *const *env; /* PATH in it is searched */
        const char *cwd;  /* or NULL */
        const struct upstream_user *user;
};

/* Becomes the user (permanently). Returns 0 or negative errno. */
int upstream_become(const struct upstream_user *user, struct error *err);

/* Returns only when it failed. Descriptors 0, 1 and 2 are the server's already, all others
 * O_CLOEXEC. */
int upstream_exec(const struct upstream_launch *launch, struct error *err);
