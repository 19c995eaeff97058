/* resources/read of a session's file: the worker is asked, the answer comes later. */
#pragma once

#include "supervisor/mcp/server-internal.h"

/* Takes the reply. */
void resource_read_file(struct mcp_server *server, const struct mcp_request *request,
                        const struct resource_uri *uri, struct reply *reply);
/* The client wants no answer any more. Returns whether one of this id is under way. */
bool resource_read_cancel(struct mcp_server *server, yyjson_val *request_id);
