/* What the image commands share. */
#pragma once

#include <limits.h>

#include "base/error.h"
#include "supervisor/cli/options.h"

/* Opens the store of this user, and says where it is. -ENOENT: there is none yet. */
int images_open(const struct cli_options *o, char path[PATH_MAX], struct error *err);
