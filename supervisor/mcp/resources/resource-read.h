/* Answers of resources/read. A session's file, which the worker reads, and the catalogue of tools, which is rendered in the
 * background, are answered later. */
#pragma once

#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/resources/resource-store.h"

struct mcp_peer;

enum {
        RESOURCE_READ_MAX =
                1024 *
                1024, /* bytes of text in one answer; a second item has the URI of the rest */
        /* Resource not found, in revisions up to 2025-11-25; later it is -32602. */
        MCP_RESOURCE_NOT_FOUND = -32002,
};

/* Appends {"contents":[…]} with one item. */
int resource_append_whole(const struct resource *resource, const struct resource_uri *uri,
                          const struct buffer *text, struct buffer *to);

/* Appends {"contents":[…]}: at most RESOURCE_READ_MAX of the text from the URI's offset on, and the URI of the rest. */
int resource_append_contents(const struct resource *resource, const struct resource_uri *uri,
                             struct buffer *to);

/* uri: as the request named it. */
void resource_reply_not_found(struct reply *reply, const char *uri, size_t n, const char *why);

/* Takes ownership of the reply. */
void resource_read_file(const struct mcp_request *request, const struct resource_uri *uri,
                        struct reply *reply);
void resource_read_tools(const struct mcp_request *request, const struct resource_uri *uri,
                         struct reply *reply);
/* Whether a request with this id is pending and not cancelled. cancels: notifications/cancelled. */
bool resource_read_is_pending(const struct mcp_peer *peer, yyjson_val *id, bool cancels);
/* The peer ends: its reads are not answered. */
void resource_read_drop(struct mcp_peer *peer);
