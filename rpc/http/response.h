/* Heads of HTTP responses, chunks, and server-sent events (HTML standard, section 9.2). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* "OK" for 200; "" for a status that is not sent. */
const char *http_reason(int status);

/* Appends a head without its last line: the status line, Date is not sent. Add headers with
 * http_append_header() and end with "\r\n". */
int http_append_status(struct buffer *to, int status);

/* The value is cut at the first control character: no header can be injected. */
int http_append_header(struct buffer *to, const char *name, const char *value);

/* Begins and ends a chunk of n bytes of a chunked body. */
int http_append_chunk(struct buffer *to, const char *bytes, size_t n);

/*
 * Appends an event. id: of the event, or NULL. name: or NULL ("message"). data may have newlines; a
 * last one is left out. retry_ms: 0 for none.
 */
int sse_append_event(struct buffer *to, const char *id, const char *name, unsigned retry_ms,
                     const char *data, size_t n);
