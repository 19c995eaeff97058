/* Shared by the image commands. */
#pragma once

#include <limits.h>

#include "base/error.h"
#include "supervisor/cli/options.h"

/* Opens the image store of this user; path is its directory. -ENOENT: it does not exist yet. */
int images_open(const struct cli_options *o, char path[PATH_MAX], struct error *err);

/* Before the store is changed: where root runs the command and the store is another user's, becomes
 * that user for good, so that nothing of root's is left in it. */
int images_become_owner(int store, struct error *err);
