/* Calls of run_python and run_javascript. */
#pragma once

#include "policy/language.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

enum { MCP_KEPT_MAX = 256 }; /* results of a principal that no request waits for */

/* tools/call of one of them, which the connection has: a request of it becomes a cell, or continues a call that waits for it. Takes ownership of
 * the reply. */
void mcp_run_code(const struct mcp_request *request, enum language language, struct reply *reply);
