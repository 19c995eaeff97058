/*
 * The tools of one server: JSON text for the catalogue, and a set of names.
 *
 * Of what a server sends, only the members of the catalogue (hub.h) are kept. Number, size and depth
 * of the tools are bounded. A tool that cannot be used is left out, with a warning.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/json.h"

enum {
        HUB_TOOLS_MAX = 10000,
        HUB_TOOLS_BYTES_MAX = 5 * 1024 * 1024, /* of all tools of a server, as text */
        HUB_TOOLS_VALUES_MAX = 200 * 1000,     /* of JSON, of all tools of a server */
        HUB_TOOL_BYTES_MAX = 1024 * 1024,
        HUB_TOOL_NAME_MAX = 256,
        HUB_TOOL_DEPTH_MAX = 100, /* less than JSON_DEPTH_MAX: the catalogue adds levels */
};

struct hub_tools;

struct hub_tools *hub_tools_new(void);
struct hub_tools *hub_tools_free(struct hub_tools *tools);

/* The server is reached by HTTP in MCP 2026-07-28: the arguments that the schema names become headers,
 * and a tool whose schema names them wrongly is left out. Before the first addition. */
void hub_tools_use_headers(struct hub_tools *tools);

/* Adds the array of tools of a tools/list result. Returns 0, 1 when a bound is reached and no further
 * tools are added, -EINVAL when it is not an array, -ENOMEM. */
int hub_tools_add(struct hub_tools *tools, yyjson_val *list);

/* How many tools were left out, and why the first of them was ("\"x\": it has no name"). */
size_t hub_tools_left_out(const struct hub_tools *tools, const char **why);

size_t hub_tools_count(const struct hub_tools *tools);
/* Values of JSON in all of them, as the server sent them. */
size_t hub_tools_values(const struct hub_tools *tools);
bool hub_tools_has(const struct hub_tools *tools, const char *name);
/* A tool as hub_tools_text() has it; NULL: there is none, or no memory. It is parsed once, and kept. */
yyjson_val *hub_tools_get(const struct hub_tools *tools, const char *name);
/* Whether a tool must run as a task (execution.taskSupport is "required"). */
bool hub_tools_needs_task(const struct hub_tools *tools, const char *name);
/* Calls add() for each argument that is to be a header. */
void hub_tools_mirror(const struct hub_tools *tools, const char *name, yyjson_val *arguments,
                      void (*add)(void *to, const char *name, const char *value, size_t n),
                      void *to);
bool hub_tools_equal(const struct hub_tools *a, const struct hub_tools *b);

/* The elements of a JSON array, without its brackets. */
const struct buffer *hub_tools_text(const struct hub_tools *tools);

/* How a tool of a list is shown. */
enum hub_tool_mark {
        HUB_TOOL_LEFT_OUT,
        HUB_TOOL_PLAIN,
        HUB_TOOL_ASKS,      /* no call of it is allowed without a question: "asks": "always" */
        HUB_TOOL_ASKS_SOME, /* some calls of it are asked about: "asks": "sometimes" */
};

/* Appends the same, of the tools that mark() does not leave out. text: the tool as JSON. Returns 0, -EMSGSIZE, -ENOMEM. */
int hub_tools_append(const struct hub_tools *tools, struct buffer *b,
                     enum hub_tool_mark (*mark)(void *data, const char *name, const char *text,
                                                size_t n),
                     void *data);

DEFINE_CLEANUP(struct hub_tools *, hub_tools_free)
#define _cleanup_hub_tools_ _cleanup_(cleanup_hub_tools_free)
