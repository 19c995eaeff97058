/* After a call: what its result shows in part or not at all is kept, and the files that it made are listed. */
#pragma once

#include "supervisor/mcp/resources/resource-store.h"

struct mcp_principal;
struct mcp_server;

/* Keeps a display that a result does not show; moves the bytes out of it. */
void resource_keep_display(struct mcp_server *server, struct mcp_principal *principal,
                           const struct resource_uri *uri, struct cell_display *display);

/* Keeps an output that the result shows in part only; moves the bytes out of the capture. */
void resource_keep(struct mcp_server *server, struct mcp_principal *principal,
                   const struct resource_uri *uri, struct capture *capture);

/* Adds the files that a call made or changed. */
void resource_keep_names(struct mcp_server *server, struct mcp_principal *principal,
                         const char *session, const struct cell_outcome *outcome);
