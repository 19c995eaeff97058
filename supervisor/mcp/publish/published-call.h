/*
 * Calls of what the config publishes: tools/call, prompts/get, resources/read, completion/complete.
 *
 * Each runs as a cell in its own sandbox, beside run_python's in the same list of calls. If its
 * code asks the client, the cell ends with the questions. A modern client is answered with them, and
 * calls again; a legacy client gets them as requests, and the code runs again from its start, with the
 * answers so far.
 */
#pragma once

#include "policy/config/config.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

/* Answers with a list that has one page: `first`, which is JSON or NULL, and the entries of this kind. */
void published_reply_list(const struct mcp_request *request, enum config_published_kind kind,
                          const char *key, const char *first, struct reply *reply);
/* prompts/list. */
void published_list_prompts(const struct mcp_request *request, struct reply *reply);

/* A tool of the config; takes ownership of the reply, as the functions below do. */
void published_call_tool(const struct mcp_request *request, const struct config_published *tool,
                         struct reply *reply);
void published_call_prompt(const struct mcp_request *request, struct reply *reply);
void published_complete(const struct mcp_request *request, struct reply *reply);
/* Returns whether the URI is published; else the reply is the caller's. */
bool published_call_read(const struct mcp_request *request, struct reply *reply);
