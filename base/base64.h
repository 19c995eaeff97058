/* Base64 with padding and without line breaks (RFC 4648, section 4). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Appends n bytes as text. Returns 0, -EMSGSIZE or -ENOMEM; a failure leaves the buffer as it was.
 */
int base64_append(struct buffer *to, const void *data, size_t n);

/* Whether it is what base64_append() makes of some bytes. *bytes (may be NULL): how many. */
bool base64_valid(const char *text, size_t n, size_t *bytes);

/* Appends the bytes of a text. Returns 0, -EBADMSG when it is not valid, -EMSGSIZE or -ENOMEM. */
int base64_decode(struct buffer *to, const char *text, size_t n);
