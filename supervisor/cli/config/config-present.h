/* Warnings about what a config names and this machine lacks. */
#pragma once

#include "policy/config/types.h"
#include "supervisor/cli/command/command.h"

/* Reports programs, interpreters, images, directories and users that do not exist. */
void config_check_present(const struct options *o, struct config *config);
