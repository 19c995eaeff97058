/* `cloister logout`. */
#pragma once

#include "supervisor/oauth/target.h"

/* Revokes the tokens and removes them. Returns 0 or negative errno. */
int oauth_logout(const struct oauth_target *target, struct error *err);
