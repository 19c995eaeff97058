/*
 * URIs of resources:
 *
 *     cloister://sessions/NAME/cells/N/stdout     (or stderr) all that a call printed
 *     cloister://sessions/NAME/cells/N/displays/I the display I of a call, from 1 on
 *     cloister://sessions/NAME/cells/N/receipt    what a call has used and moved, as JSON
 *     cloister://sessions/NAME/files/PATH         a file below /workspace/out, percent-encoded
 *     cloister://tools                            the tools of all upstream servers, as text
 *     cloister://tools/SERVER                     those of one with their schemas, as JSON
 *
 * The URI of anything but a file may end with ?offset=BYTES.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json-out.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/cell/session-name.h"

#define RESOURCE_TOOLS_URI "cloister://tools"

enum { RESOURCE_URI_MAX = 1024, RESOURCE_PATH_MAX = 255 };

struct resource_uri {
        enum {
                RESOURCE_OUTPUT,
                RESOURCE_DISPLAY,
                RESOURCE_RECEIPT,
                RESOURCE_FILE,
                RESOURCE_TOOLS,
                RESOURCE_PUBLISHED
        } kind;
        char session[SESSION_NAME_MAX + 1];
        uint64_t cell;           /* of an output, a display or a receipt, from 1 on */
        enum cell_stream stream; /* of an output */
        uint64_t display;        /* from 1 on */
        char path[RESOURCE_PATH_MAX +
                  1]; /* of a file (file_path_valid()); a server's name, or ""; the
                                             whole URI of what is published, in characters of URIs */
        uint64_t offset;
};

/* Parses untrusted text. Returns 0 or -EINVAL. */
int resource_uri_parse(const char *text, size_t n, struct resource_uri *ret, struct error *err);

/* Appends the URI, without an offset if it is 0. Returns 0, -EMSGSIZE or -ENOMEM. */
int resource_uri_append(const struct resource_uri *uri, struct buffer *to);
/* Puts it as a string. */
void resource_uri_put(struct json_out *out, const char *key, const struct resource_uri *uri);

/* Whether both name the same resource; offsets do not matter. */
bool resource_uri_same(const struct resource_uri *a, const struct resource_uri *b);
