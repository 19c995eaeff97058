/* Calls of run_python. */
#pragma once

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

/* tools/call of run_python: a request of it becomes a cell, or continues a call that waits for it. Takes ownership of
 * the reply. */
void mcp_run_python(const struct mcp_request *request, struct reply *reply);
