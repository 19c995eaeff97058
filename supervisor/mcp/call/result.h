/*
 * The result of run_python as a CallToolResult: text and structuredContent. Each of them is
 * complete, because some clients show the model only one.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "supervisor/mcp/resources/resource-uri.h"
#include "supervisor/mcp/sink.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/session.h"

/* JSON Schema of structuredContent; the output of result_render() always conforms to it. */
extern const char result_schema[];

enum { RECEIPT_MAX = 2048 }; /* bytes of the receipt in it: the number of its members is fixed */

/* How to render an outcome. */
struct result_options {
        const char *session;
        size_t max_output; /* characters of a stream */
        unsigned kinds;    /* CONTENT_… that the client's version knows (result-content.h) */
        const struct resource_uri *whole[CELL_STREAMS]; /* URI of the whole output, or NULL */
        struct capture_mark from[CELL_STREAMS]; /* the output before it is in an earlier answer */
        bool was_cut[CELL_STREAMS];             /* by an earlier answer */
        const char *said;                       /* of the call itself, for the notice; or NULL */
        const struct buffer
                *earlier; /* text of a result that no call has fetched; NULL or empty: none */
        uint64_t cell;    /* whose displays are kept if the result does not show them; 0: none */
};

/* Appends {"content": […], "structuredContent": {…}, "isError": …}. Returns 0, -EMSGSIZE or
 * -ENOMEM. */
int result_render(const struct cell_outcome *outcome, const struct result_options *options,
                  struct buffer *to);

/* Appends the text of the result alone. */
int result_render_text(const struct cell_outcome *outcome, const struct result_options *options,
                       struct buffer *to);

/* Appends the result of a call whose code was not run, because its session runs other code. */
int result_render_busy(const struct session_running *running, const char *why, const char *session,
                       struct buffer *to);

/* Appends the result of a call that was refused and has no cell. */
int result_render_refusal(const char *type, const char *message, const char *session,
                          struct buffer *to);
