/* The words of a text, for a search: in lower case, each with a space behind it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Appends " word word … ": "listEvents", "list-events" and "List events" have the same words. stems:
 * without the English endings ing, es, ed and s, if three bytes remain. Bytes that are not UTF-8 separate
 * words. At most `most` words are appended. Returns their number, -EMSGSIZE or -ENOMEM.
 */
int tool_words_append(struct buffer *to, const char *text, size_t n, bool stems, int most);

/* Appends the text in lower case. Returns 0, -EMSGSIZE or -ENOMEM. */
int tool_words_lower(struct buffer *to, const char *text, size_t n);
