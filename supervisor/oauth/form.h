/* Bodies and queries in application/x-www-form-urlencoded. */
#pragma once

#include "base/buffer.h"

/* Appends text, percent-encoded. */
int form_encode(struct buffer *to, const char *text);
/* Appends "name=value" with an "&" before it unless it is the first after `from` bytes. A value of ""
 * is left out. */
int form_add(struct buffer *to, size_t from, const char *name, const char *value);
