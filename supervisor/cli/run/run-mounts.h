/* The directories of `cloister run --mount`, as the config has them. */
#pragma once

#include "base/error.h"
#include "supervisor/cli/command/command.h"

/* *ret: JSON of an object with the key "mounts" (docs/config.md), which the monitor checks; owned by the
 * caller. NULL without --mount. */
int run_mounts_text(const struct options *options, char **ret, struct error *err);
