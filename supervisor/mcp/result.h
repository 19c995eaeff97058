/*
 * The result of run_python as a CallToolResult: text and structuredContent, each complete by
 * itself, since some clients show the model only one of them.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "supervisor/mcp/resource-uri.h"
#include "supervisor/session/cell.h"

enum { RESULT_MAX = 512 * 1024 * 1024 };

/* JSON Schema of structuredContent; what result_render() makes always fits it. */
extern const char result_schema[];

/* How an outcome is shown. */
struct result_view {
        const char *session;
        size_t max_output; /* characters of a stream */
        unsigned kinds;    /* CONTENT_… that the client's version knows (result-content.h) */
        const struct resource_uri *whole[CELL_STREAMS]; /* where all of it is kept, or NULL */
};

/* Appends {"content": […], "structuredContent": {…}, "isError": …}. Returns 0, -EMSGSIZE or
 * -ENOMEM. */
int result_render(const struct cell_outcome *outcome, const struct result_view *view,
                  struct buffer *to);

/* The same for a call that was refused before it became a cell. */
int result_render_refusal(const char *type, const char *message, const char *session,
                          struct buffer *to);
