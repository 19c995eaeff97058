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

bool printable_is(uint32_t c);

/* Appends the escaped line to `to` of `size` bytes, as much as fits, and a NUL. Returns its length. */
size_t printable_escape(char *to, size_t size, const char *text);

void printable_print(FILE *to, const char *text);

/* Appends JSON (UTF-8) in which such characters of strings are \uXXXX, which means the same. Returns 0,
 * -EMSGSIZE or -ENOMEM. */
int printable_json(struct buffer *to, const char *json, size_t n);
