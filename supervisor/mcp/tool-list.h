/* The answers to tools/list, one for each profile, and which version of them is the newest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "supervisor/mcp/request.h"

struct mcp_peer;
struct mcp_server;
struct tool_list;

/* The catalogue that tool_append() takes for the profile that this peer has in an era, and its version, unless that is NULL. */
const struct buffer *tool_list_catalogue(const struct mcp_peer *peer, enum mcp_era era,
                                         uint64_t *version);
/* Whether it has any server. */
bool tool_list_has_servers(const struct mcp_peer *peer, enum mcp_era era);

/* The list for that profile as it is now, valid until the next call; NULL after an error. */
const struct buffer *tool_list_get(struct mcp_peer *peer, enum mcp_era era, struct error *err);

/* Grows when the list for that profile changes; 0: it was not made yet. */
uint64_t tool_list_serial(const struct mcp_peer *peer, enum mcp_era era);

/* Makes all lists again that a client has requested. Returns whether such a list exists. */
bool tool_lists_refresh(struct mcp_server *server);
/* The config has changed. */
void tool_lists_outdated(struct mcp_server *server);
void tool_lists_free(struct mcp_server *server);
