/*
 * Writes JSON at the end of a buffer, in order. Commas are added automatically.
 *
 *     struct json_out out = {.to = &b};
 *     json_out_begin(&out, NULL, '{');
 *     json_out_string(&out, "name", text, n);
 *     json_out_begin(&out, "list", '[');
 *     json_out_int(&out, NULL, 1);
 *     json_out_end(&out, ']');
 *     json_out_end(&out, '}');
 *     return out.error;
 *
 * A key is ASCII that needs no escapes; NULL in a list, at the top level and after json_out_key(). Each
 * begin needs an end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/buffer.h"

struct json_out {
        struct buffer *to;
        int error;      /* the first: -EMSGSIZE or -ENOMEM; nothing is written after it */
        bool more;      /* the next member is not the first */
        bool keyed;     /* json_out_key() wrote the key of the next value */
        bool indent;    /* set by the caller: one member per line, two spaces for each level */
        unsigned depth; /* open brackets, counted if indent is set */
};

/* Sets the error, because the caller could not make a value. */
void json_out_fail(struct json_out *out, int error);

void json_out_begin(struct json_out *out, const char *key, char bracket);
void json_out_end(struct json_out *out, char bracket);

/* Writes a key of any text. The value follows, with NULL as its key. */
void json_out_key(struct json_out *out, const char *key, size_t n);

/* As json_append_string(). */
void json_out_string(struct json_out *out, const char *key, const char *text, size_t n);
/* As json_append_bytes(). */
void json_out_bytes(struct json_out *out, const char *key, const char *bytes, size_t n);
void json_out_text(struct json_out *out, const char *key, const char *text);
void json_out_base64(struct json_out *out, const char *key, const void *bytes, size_t n);
void json_out_int(struct json_out *out, const char *key, int64_t number);
void json_out_bool(struct json_out *out, const char *key, bool value);

/* n bytes of valid JSON: as they are, or with the line breaks of `indent`. */
void json_out_raw(struct json_out *out, const char *key, const char *json, size_t n);
/* A parsed value, its numbers as they were written. */
void json_out_value(struct json_out *out, const char *key, yyjson_val *value);
/* The JSON in a buffer. */
static inline void json_out_buffer(struct json_out *out, const char *key, const struct buffer *json)
{
        json_out_raw(out, key, buffer_bytes(json), json->length);
}
