/*
 * Escapes the output of code for a terminal: control characters except newline and tab, C1 controls,
 * bidirectional overrides, zero-width characters and ill-formed bytes are shown as \x.. or \u....
 * A carriage return becomes a newline.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/utf8.h"

struct terminal_stream {
        struct utf8_stream utf8;
        bool cr; /* the last character was a carriage return */
};

/* Appends the next piece of a stream. Returns 0, -EMSGSIZE or -ENOMEM. */
int terminal_escape(struct terminal_stream *stream, const char *bytes, size_t n, struct buffer *to);

/* For names and messages within a line: newlines are escaped too. */
int terminal_escape_line(const char *text, size_t n, struct buffer *to);
