/*
 * Resources that clients list, read and subscribe to (resource-uri.h): whole outputs of calls whose
 * result was truncated, kept in a limited store, and files below /workspace/out, read through the
 * session.
 */
#pragma once

#include "supervisor/mcp/server-internal.h"

enum {
        RESOURCES_PAGE = 100,
        /* Bytes of text in one answer; a second item has the URI of the rest. */
        RESOURCE_READ_MAX = 1024 * 1024,
        RESOURCE_FILE_MAX = 16 * 1024 * 1024, /* a larger file is refused */
        /* Resource not found, in revisions up to 2025-11-25; later it is -32602. */
        MCP_RESOURCE_NOT_FOUND = -32002,
};

void resources_list(struct mcp_server *server, const struct mcp_request *request,
                    struct reply *reply);
void resources_templates(struct mcp_server *server, const struct mcp_request *request,
                         struct reply *reply);
void resources_read(struct mcp_server *server, const struct mcp_request *request,
                    struct reply *reply);
void resources_subscribe(struct mcp_server *server, const struct mcp_request *request,
                         struct reply *reply);
void resources_unsubscribe(struct mcp_server *server, const struct mcp_request *request,
                           struct reply *reply);

/* Keeps a display that a result does not show; moves the bytes out of it. */
void resources_keep_display(struct mcp_server *server, struct mcp_principal *principal,
                            const struct resource_uri *uri, struct cell_display *display);

/* Keeps an output that the result shows in part only; moves the bytes out of the capture. */
void resources_keep(struct mcp_server *server, struct mcp_principal *principal,
                    const struct resource_uri *uri, struct capture *capture);
/* Adds the files that a call made or changed. */
void resources_name_files(struct mcp_server *server, struct mcp_principal *principal,
                          const char *session, const struct cell_outcome *outcome);

/* Appends {"contents":[…]}: at most RESOURCE_READ_MAX of the text from the URI's offset on, and the URI of the rest. */
int resources_append_contents(const struct resource *resource, const struct resource_uri *uri,
                              struct buffer *to);

/* params: of the request, or with its "uri" alone. */
void resources_answer_not_found(struct mcp_server *server, yyjson_val *params, struct reply *reply,
                                const char *why);
