/*
 * Finds the values of secrets in a stream of bytes, in each of their forms (supervisor/secrets/forms.h) and also across the pieces of
 * the stream, and writes the placeholder of a session in their place. Takes linear time.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "supervisor/inject/settings.h"

struct value_mask;

/* Of the values of all secrets. */
int value_mask_new(struct value_mask **ret, const struct inject_settings *settings,
                   struct error *err);

struct mask_stream;

/* placeholders: of the session, by the index of the secret; borrowed. NULL: no memory. */
struct mask_stream *mask_stream_new(const struct value_mask *mask,
                                    char (*placeholders)[INJECT_PLACEHOLDER_SIZE]);
struct mask_stream *mask_stream_free(struct mask_stream *stream);

/* Appends what is certain. Keeps what may be the beginning of a value. Returns 0, or -EMSGSIZE or -ENOMEM. */
int mask_stream_feed(struct mask_stream *stream, const char *data, size_t n, struct buffer *to);
/* The stream has ended. */
int mask_stream_finish(struct mask_stream *stream, struct buffer *to);
