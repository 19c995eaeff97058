/*
 * The arguments of tools that a server of MCP 2026-07-28 wants as HTTP headers: x-mcp-header in the
 * inputSchema ("Custom Headers from Tool Parameters").
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

enum {
        TOOL_HEADERS_MAX = 32, /* of a tool */
        TOOL_HEADER_NAME_MAX = 128,
};

struct tool_header {
        char *pointer; /* JSON pointer of the argument */
        char *name;    /* "Mcp-Param-…" */
};

struct tool_headers {
        struct tool_header *items;
        size_t n;
};

/* Finds those of a tool. Returns how its schema breaks the rules: then the tool must not be used; NULL for a
 * valid schema. *ret must be freed in both cases. Out of memory is a reason too. */
const char *tool_headers_find(yyjson_val *schema, struct tool_headers *ret);
void tool_headers_done(struct tool_headers *headers);

/* Calls add() for each of these arguments that exists. */
void tool_headers_mirror(const struct tool_headers *headers, yyjson_val *arguments,
                         void (*add)(void *to, const char *name, const char *value, size_t n),
                         void *to);
