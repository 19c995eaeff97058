/* The commands of `cloister`: one row each. */
#pragma once

#include "supervisor/cli/command/command.h"

extern const struct cli_commands cli_commands;
