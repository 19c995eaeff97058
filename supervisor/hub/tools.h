/*
 * The tools of one server: as JSON text that goes into the catalogue as it is, and as names to ask
 * for.
 *
 * What comes from a server is reduced to the members of the catalogue (hub.h) and bounded: in
 * number, in bytes, in depth. A tool that cannot be used is left out, with a warning; the others
 * stay.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/json.h"

enum {
        HUB_TOOLS_MAX = 10000,
        HUB_TOOLS_BYTES_MAX = 16 * 1024 * 1024, /* of all tools of a server, as text */
        HUB_TOOL_BYTES_MAX = 1024 * 1024,
        HUB_TOOL_NAME_MAX = 256,
        HUB_TOOL_DEPTH_MAX = 100, /* below JSON_DEPTH_MAX, as the catalogue nests them deeper */
};

struct hub_tools;

struct hub_tools *hub_tools_new(void);
struct hub_tools *hub_tools_free(struct hub_tools *tools);

/* Adds an array of tools as a server lists them. Returns 1 when a bound on the whole is reached and
 * nothing more will be taken, 0, -EINVAL when it is not an array, -ENOMEM. */
int hub_tools_add(struct hub_tools *tools, yyjson_val *list);

/* How many were left out, and a sentence about the first of them. */
size_t hub_tools_left_out(const struct hub_tools *tools, const char **why);

/* Has to be called after the last addition, before the questions below. */
void hub_tools_seal(struct hub_tools *tools);

size_t hub_tools_count(const struct hub_tools *tools);
bool hub_tools_has(const struct hub_tools *tools, const char *name);
bool hub_tools_equal(const struct hub_tools *a, const struct hub_tools *b);

/* The elements of a JSON array, without its brackets. */
const struct buffer *hub_tools_text(const struct hub_tools *tools);

/* The same for those that are wanted. Returns 0, -EMSGSIZE, -ENOMEM. */
int hub_tools_append(const struct hub_tools *tools, struct buffer *b,
                     bool (*is_wanted)(void *data, const char *name), void *data);

static inline void cleanup_hub_tools(struct hub_tools **tools)
{
        hub_tools_free(*tools);
}
#define _cleanup_hub_tools_ _cleanup_(cleanup_hub_tools)
