/* The method tools/call: which tool it is, and whether the call is a task. */
#pragma once

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

/* Takes ownership of the reply. */
void tools_call(const struct mcp_request *request, struct reply *reply);
