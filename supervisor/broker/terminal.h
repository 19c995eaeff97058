/*
 * Escapes the output of code for a terminal: control characters except newline, tab and carriage
 * return, C1 controls, bidirectional overrides, zero-width characters and ill-formed bytes are
 * shown as \x.. or \u....
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "base/utf8.h"

/* Appends the next piece of a stream. Returns 0, -EMSGSIZE or -ENOMEM. */
int terminal_escape(struct utf8_stream *stream, const char *bytes, size_t n, struct buffer *to);

/* For names and messages within a line: newlines are escaped too. */
int terminal_escape_line(const char *text, size_t n, struct buffer *to);
