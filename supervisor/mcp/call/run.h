/* Calls of run_python. */
#pragma once

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

enum { MCP_KEPT_MAX = 256 }; /* results of a principal that no request waits for */

/* tools/call of run_python: a request of it becomes a cell, or continues a call that waits for it. Takes ownership of
 * the reply. */
void mcp_run_python(const struct mcp_request *request, struct reply *reply);
