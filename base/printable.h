/*
 * Text of others on a terminal or in a log: control characters, and characters that change how other
 * text is shown or hide in it (bidirectional controls, zero-width ones, fillers), are escaped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/utf8.h"

bool printable_is(uint32_t c);

/* Appends the escaped line to `to` of `size` bytes, as much as fits, and a NUL. Returns its length. */
size_t printable_escape(char *to, size_t size, const char *text);

void printable_print(FILE *to, const char *text);

/* Appends JSON (UTF-8) in which such characters of strings, blanks that are not the usual space, and variation selectors are \uXXXX, which
 * means the same. Returns 0,
 * -EMSGSIZE or -ENOMEM. */
int printable_json(struct buffer *to, const char *json, size_t n);

/*
 * Escapes the output of code for a terminal: control characters except newline and tab, C1 controls,
 * bidirectional overrides, zero-width characters and ill-formed bytes are shown as \x.. or \u....
 * A carriage return becomes a newline.
 */
struct terminal_stream {
        struct utf8_stream utf8;
        bool cr; /* the last character was a carriage return */
};

/* Appends the next piece of a stream. Returns 0, -EMSGSIZE or -ENOMEM. */
int terminal_escape(struct terminal_stream *stream, const char *bytes, size_t n, struct buffer *to);

/* For names and messages within a line: newlines are escaped too. */
int terminal_escape_line(const char *text, size_t n, struct buffer *to);
