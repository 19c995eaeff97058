/*
 * The result of run_python as a CallToolResult: text and structuredContent. Each of them is
 * complete, because some clients show the model only one.
 */
#pragma once

#include "base/buffer.h"
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/sink.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/session.h"

/* JSON Schema of structuredContent; the output of result_render() always conforms to it. */
extern const char result_schema[];

enum { RECEIPT_MAX = 2048 }; /* bytes of the receipt in it: the number of its members is fixed */

/* Appends {"content": […], "structuredContent": {…}, "isError": …}. Returns 0, -EMSGSIZE or
 * -ENOMEM. */
int result_render(const struct cell_outcome *outcome, const struct result_options *options,
                  struct buffer *to);

/* Appends the notice: what is unusual about the end of the cell or the state of its session, one line each. Returns 0,
 * -EMSGSIZE or -ENOMEM. */
int result_append_notice(const struct cell_outcome *outcome, struct buffer *to);

/* Appends the text of the result alone. */
int result_render_text(const struct cell_outcome *outcome, const struct result_options *options,
                       struct buffer *to);

/* Appends the object of one branch, and its lines of the text. most: characters of each text in it. */
int result_render_branch(const struct cell_outcome *outcome, const char *session, size_t most,
                         struct buffer *object, struct buffer *text);

/* Appends the result of a call whose code was not run, because its session runs other code. */
int result_render_busy(const struct session_running *running, const char *why, const char *session,
                       struct buffer *to);

/* Appends the result of a call that was refused and has no cell. */
int result_render_refusal(const char *type, const char *message, const char *session,
                          struct buffer *to);
