/* The headers that a modern request repeats from its body (specification 2026-07-28, Streamable HTTP, "Request Metadata"). */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "rpc/http/request.h"
#include "rpc/jsonrpc.h"

enum { MCP_HEADER_MISMATCH = -32020 };

/* Whether its MCP-Protocol-Version is the modern one. */
bool standard_headers_say_modern(const struct http_reader *reader);
/* Whether it is a modern request by its body or by its MCP-Protocol-Version. */
bool standard_headers_modern(const struct http_reader *reader,
                             const struct jsonrpc_message *message);

/* Returns 0 or -EBADMSG: a header is missing or differs from the body. */
int standard_headers_check(const struct http_reader *reader, const struct jsonrpc_message *message,
                           struct error *err);
