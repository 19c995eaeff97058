/* Reads whole files of a session, in pieces. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

struct sessions;

/* One of content and error is NULL. content may be taken over. */
typedef void session_file_fn(void *data, struct buffer *content, const struct error *error);

/*
 * Reads a file of at most `most` bytes (FILES_READ_MAX at most) below /workspace/out of the session
 * of this name. Returns 0, or negative errno: no such session, an invalid path, too many requests.
 * done is called exactly once after 0, never from inside this function.
 */
int session_file_read(struct sessions *sessions, const char *session, const char *path, size_t most,
                      session_file_fn *done, void *data, struct error *err);
