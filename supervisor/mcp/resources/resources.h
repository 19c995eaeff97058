/*
 * Resources that clients list, read and subscribe to (resource-uri.h): whole outputs of calls whose
 * result was truncated, kept in a limited store, and files below /workspace/out, read through the
 * session.
 */
#pragma once

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

void resources_list(const struct mcp_request *request, struct reply *reply);
void resources_templates(const struct mcp_request *request, struct reply *reply);
void resources_read(const struct mcp_request *request, struct reply *reply);
void resources_subscribe(const struct mcp_request *request, struct reply *reply);
void resources_unsubscribe(const struct mcp_request *request, struct reply *reply);
