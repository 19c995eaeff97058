/* The results of calls that are not sent while a plan is made. */
#pragma once

#include "base/buffer.h"
#include "base/json.h"

/* Appends a CallToolResult. planned: JSON of the rule's "planned", or NULL: a value that fits the outputSchema of the tool, as far as that is
 * simple. tool: its entry in the catalogue, or NULL. Returns 0 or negative errno. */
int blank_result(yyjson_val *tool, const char *planned, struct buffer *to);
