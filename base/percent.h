/* Percent-encoding in URIs and forms (RFC 3986, section 2.1). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

#define PERCENT_UNRESERVED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

/* Appends text in which the characters of a set, or all others, are %XX. An error stays in the buffer. */
void percent_append(struct buffer *to, const char *text, const char *set, bool others);

/* Decodes the character at the front of n > 0 bytes. Returns how many bytes it has, 0: "%" without two digits. */
size_t percent_next(const char *text, size_t n, char *ret);
