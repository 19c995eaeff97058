/*
 * The result of run_python as a CallToolResult: text and structuredContent. Each of them is
 * complete, because some clients show the model only one.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "supervisor/mcp/resource-uri.h"
#include "supervisor/session/cell.h"

enum { RESULT_MAX = 512 * 1024 * 1024 };

/* JSON Schema of structuredContent; the output of result_render() always conforms to it. */
extern const char result_schema[];

/* How to render an outcome. */
struct result_options {
        const char *session;
        size_t max_output; /* characters of a stream */
        unsigned kinds;    /* CONTENT_… that the client's version knows (result-content.h) */
        const struct resource_uri *whole[CELL_STREAMS]; /* URI of the whole output, or NULL */
};

/* Appends {"content": […], "structuredContent": {…}, "isError": …}. Returns 0, -EMSGSIZE or
 * -ENOMEM. */
int result_render(const struct cell_outcome *outcome, const struct result_options *options,
                  struct buffer *to);

/* The same for a call that was refused and has no cell. */
int result_render_refusal(const char *type, const char *message, const char *session,
                          struct buffer *to);
