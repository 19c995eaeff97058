/* Whether an image has the modules that a profile preloads. */
#pragma once

#include "policy/config/types.h"

/* Reports as warnings the modules of "preload" that the image lacks. store: the image store, or -1. */
void config_check_preload(struct config *config, const struct config_profile *profile, int store);
