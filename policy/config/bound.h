/* Settings from outside widen no limit and no network of the user's files. */
#pragma once

#include <yyjson.h>

#include "policy/config/config.h"

/* The keys of the top level that a file has: a bit for each number. */
uint64_t config_said(yyjson_val *root);

/*
 * Lowers each number in `settings` that is above what the files before say, with a warning, and lowers the limits of
 * profiles that are above the settings. -EPERM: the settings have a host that the files do not allow.
 */
int config_bound(struct config *before, struct config *settings, const char *name,
                 struct error *err);
