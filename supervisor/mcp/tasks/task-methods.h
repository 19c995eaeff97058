/* The methods tasks/…, and tasks/result requests that wait for the end of a task. */
#pragma once

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

struct mcp_peer;

void tasks_get(const struct mcp_request *request, struct reply *reply);
void tasks_result(const struct mcp_request *request, struct reply *reply);
void tasks_list(const struct mcp_request *request, struct reply *reply);
void tasks_update(const struct mcp_request *request, struct reply *reply);
void tasks_cancel(const struct mcp_request *request, struct reply *reply);

/* A tasks/result that waits. */
bool tasks_wait_is_pending(const struct mcp_peer *peer, yyjson_val *id);
bool tasks_wait_cancel(struct mcp_peer *peer, yyjson_val *id);
