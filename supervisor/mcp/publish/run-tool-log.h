/* The log of a tool for codemode-lite's users, who read in it what was run: the words are those of that system. */
#pragma once

#include "policy/config/config.h"
#include "supervisor/mcp/publish/run-tool-arguments.h"
#include "supervisor/session/cell/cell.h"

/* Do nothing for other guests. A line has no line break: the code and the texts of errors cannot forge one. */
void run_tool_log_start(enum config_guest guest, const struct run_tool_arguments *arguments);
void run_tool_log_end(enum config_guest guest, const struct cell_outcome *outcome);
