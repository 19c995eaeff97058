/* Content blocks of MCP from a worker: their form is checked, and other members pass unchanged. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/json.h"

/* text, image, audio, resource or resource_link. Returns 0 or -EBADMSG. */
int content_block_check(yyjson_val *block, struct error *err);

/* {"uri", "mimeType"?, "text"} or {"uri", "mimeType"?, "blob": base64}. uri may be absent where the
 * caller adds it. */
int content_resource_check(yyjson_val *resource, bool needs_uri, struct error *err);
