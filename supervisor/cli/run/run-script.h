/* What `cloister run` passes on as JSON: arguments and environment of the code, in the SCRIPT frame (rpc/frame.h), and mounts. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "supervisor/cli/command/command.h"
#include "supervisor/cli/run/feeder.h"

/* The longest arguments and environment that are passed on. */
enum { RUN_SCRIPT_MAX = 8 * 1024 * 1024 };

/* Checks the values of --env, and finds those that Cloister's own environment has. */
int run_script_check(const struct options *options, struct error *err);

/* first: sys.argv[0]; file: __file__, or NULL; write: the worker must write the code there. Returns a
 * sealed memfd. */
int run_script_collect(const struct options *options, const char *first, const char *file,
                       bool write, enum feeder_input input, struct error *err);

/* *ret: JSON of an object with the key "mounts" (docs/config.md), which the monitor checks; owned by the
 * caller. NULL without --mount. */
int run_mounts_text(const struct options *options, char **ret, struct error *err);
