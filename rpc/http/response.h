/* Status lines of HTTP responses, and server-sent events (HTML standard, section 9.2). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Appends the status line. Headers, of which Date is not sent, and an empty line follow. */
int http_append_status(struct buffer *to, int status);

/*
 * Appends an event. id: of the event, or NULL. name: or NULL ("message"). data may have newlines; a
 * last one is left out. retry_ms: 0 for none.
 */
int sse_append_event(struct buffer *to, const char *id, const char *name, unsigned retry_ms,
                     const char *data, size_t n);
