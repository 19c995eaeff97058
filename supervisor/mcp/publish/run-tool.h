/*
 * Calls of published tools that run the code they are given ("run" in the config).
 *
 * A call checks its arguments, and runs the code as a cell of a new session, which ends with it, or of the session
 * that the config names. However the cell ends, the result has the form of the config (form-result.h).
 */
#pragma once

#include "policy/config/config.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

/* tools/call of a tool with run.code. Takes ownership of the reply. */
void run_tool_call(const struct mcp_request *request, const struct config_published *tool,
                   struct reply *reply);
