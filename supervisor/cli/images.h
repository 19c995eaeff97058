/* Shared by the image commands. */
#pragma once

#include <limits.h>

#include "base/error.h"
#include "supervisor/cli/options.h"

/* Opens the image store of this user; path is its directory. -ENOENT: it does not exist yet. */
int images_open(const struct cli_options *o, char path[PATH_MAX], struct error *err);
