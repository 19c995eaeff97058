/* Requests: where they go, and what is refused before the MCP server gets them. */
#pragma once

#include "supervisor/http/state.h"

/* Takes a request whose head is complete; returns whether the body is wanted, else it has responded. */
bool http_exchange_head(struct http_connection *connection);
/* Takes a whole request. */
void http_exchange_take(struct http_connection *connection);
