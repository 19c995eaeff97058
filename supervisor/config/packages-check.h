/* What an installation of packages would meet on this machine, for `config check` and the doctor. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "policy/config/config.h"

/* The uid that images are made as; root's own where the config's user does not exist. */
uid_t packages_check_uid(const struct config *config);

/* NULL, or why sessions of the profile can have nothing installed, though it allows that. No index is
 * asked. store: the image store, -1 if there is none yet. */
const char *packages_check(const struct config *config, const struct config_profile *profile,
                           int store);

/* Whether a command is in PATH. */
bool packages_check_path(const char *name);
