/* What a config names and this machine lacks. */
#pragma once

#include "policy/config/config.h"
#include "supervisor/cli/command/options.h"

/* Reports as warnings what the config names and this machine lacks. */
void config_check_present(const struct options *o, struct config *config);
