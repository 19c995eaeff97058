/*
 * run_python and run_javascript as the client sees them: the answers to tools/list, one for each profile, and the server's instructions.
 *
 * Both depend on the config, the connection's profile and the catalogue of tools only: they are the
 * same, byte for byte, for every connection with that profile until the catalogue changes. Limits:
 * most clients read at least 4,000 characters of each, some only the first 240 of the instructions
 * or 150 of the description.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/config/config.h"
#include "supervisor/mcp/request.h"

struct mcp_peer;
struct mcp_server;

enum {
        TOOL_DESCRIPTION_MAX = 2000, /* bytes */
        TOOL_INSTRUCTIONS_MAX = 3900,
};

/* The name of the tool for each language. */
extern const char *const tool_names[LANGUAGE_MAX];

/* The language of a tool's name, or -1: it is another tool. */
int tool_language(const char *name);

/* Appends the instructions. catalogue: the payload of a CATALOG frame (rpc/frame.h). */
int tool_append_instructions(const struct config *config, const struct buffer *catalogue,
                             struct buffer *to, struct error *err);

/* Appends text of an upstream server as one line: without control characters. The error stays in the buffer. */
void tool_append_clean(struct buffer *to, const char *text, size_t n);

/* Appends "name(argument, optional?)" of a tool of the catalogue. */
int tool_append_signature(yyjson_val *tool, struct buffer *to);

/* Appends " [asks a person]" or " [may ask a person]" to it, if rules ask about it. */
int tool_append_asks(yyjson_val *tool, struct buffer *to);

/* The catalogue of the profile that this peer has in an era, and its version, unless that is NULL. */
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
