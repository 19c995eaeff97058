/* resources/read of what is answered later: a session's file, by the worker, and the catalogue of tools, which is
 * rendered in the background. */
#pragma once

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/resources/resource-uri.h"

struct mcp_peer;

/* Takes ownership of the reply. */
void resource_read_file(const struct mcp_request *request, const struct resource_uri *uri,
                        struct reply *reply);
void resource_read_tools(const struct mcp_request *request, const struct resource_uri *uri,
                         struct reply *reply);
/* Whether a request with this id is pending and not cancelled. */
bool resource_read_is_pending(const struct mcp_peer *peer, yyjson_val *id);
/* notifications/cancelled. Returns whether a request with this id is pending. */
bool resource_read_cancel(struct mcp_peer *peer, yyjson_val *request_id);
/* The peer ends: its reads are not answered. */
void resource_read_drop(struct mcp_peer *peer);
