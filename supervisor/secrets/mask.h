/*
 * Finds values of secrets in what a server sends, and puts "${secret:NAME}" in their place.
 *
 * A value is found as it is, as a JSON string has it, with percent-encoding (also "+" for a space), and in base64 of both alphabets at
 * any offset. A number that contains a value becomes a string. Other forms (reversed, compressed, hexadecimal) are not found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <yyjson.h>

#include "base/buffer.h"

enum { SECRET_MASK_MAX = 1024 /* values */ };

struct secret_mask;

struct secret_mask *secret_mask_new(void);
struct secret_mask *secret_mask_free(struct secret_mask *mask);

/* The server gets this value: it is to be found in what it sends. One that is known already is not added again. Returns 0, -ENOMEM,
 * or -ENOSPC: there are too many. */
int secret_mask_add(struct secret_mask *mask, const char *server, const char *name,
                    const char *value, size_t n);
/* Whether there is a value for the server. NULL: there is no mask. */
bool secret_mask_is_for(const struct secret_mask *mask, const char *server);

/* Appends the JSON text of a value without secrets if it has one: returns 1. Otherwise 0, and nothing is appended; -EMSGSIZE, -ENOMEM. */
int secret_mask_json(const struct secret_mask *mask, const char *server, yyjson_val *value,
                     struct buffer *to);
/* Masks plain text, without a NUL. */
int secret_mask_text(const struct secret_mask *mask, const char *server, const char *text, size_t n,
                     struct buffer *to);
