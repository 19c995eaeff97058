/*
 * JSON by yyjson, for untrusted input. Numbers are kept raw, exactly as written (yyjson_is_raw();
 * json_is_number() is true), so that a value is passed on unchanged. Size and depth are checked when a
 * document is parsed, and no function recurses.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
        JSON_DEPTH_MAX = 128,
        JSON_VALUES_MAX = 1000 * 1000, /* of a document, keys included; each takes 16 bytes */
};

/* Parses n bytes. The document owns its strings (data may go). The error says what is wrong and
 * at which byte. -EBADMSG also for a document of more than JSON_VALUES_MAX values, before memory is
 * taken for them. */
int json_parse(const char *data, size_t n, yyjson_doc **ret, struct error *err);
/* Like json_parse(), with another bound. */
int json_parse_bounded(const char *data, size_t n, size_t values_max, yyjson_doc **ret,
                       struct error *err);

/* Like json_parse(), for config files: comments, trailing commas and a BOM are allowed; the error has "line L,
 * column C". */
int json_parse_config(const char *data, size_t n, yyjson_doc **ret, struct error *err);

/* A string member of an object; NULL when absent or of another type. *length may be NULL. */
const char *json_string(yyjson_val *object, const char *key, size_t *length);

bool json_is_number(yyjson_val *value);
/* Written without a fraction or an exponent; of any size. */
bool json_is_integer(yyjson_val *value);
/* A whole number within int64_t. Returns 0, -EINVAL for another value, -ERANGE. */
int json_int64(yyjson_val *value, int64_t *ret);
/* Any number (raw or not) as a double. */
int json_double(yyjson_val *value, double *ret);
/* Whether a reader that has only doubles, such as JavaScript, reads each number in value as it is: no integer is beyond
 * ±(2^53 - 1), and no number is beyond the range of a double. */
bool json_fits_doubles(yyjson_val *value);

/* Whether each object in value has distinct names, after decoding, but what is in `except` (or NULL). A reader takes the first of
 * two equal names, another one the last. Returns 0, -ENOTUNIQ (the error has the name), -ENOMEM. */
int json_check_names(yyjson_val *value, const yyjson_val *except, struct error *err);

/* Serialises a value in one line at the end of b. Returns 0, -EMSGSIZE, -ENOMEM. */
int json_append(struct buffer *b, yyjson_val *value);
/* Like json_append(), as a new string, which the caller frees. Returns 0, -ENOMEM, -EINVAL. */
int json_write(yyjson_val *value, char **ret, size_t *n);

/* Appends text as a JSON string with its quotes. The text must be UTF-8; bytes that are not become
 * U+FFFD. */
int json_append_string(struct buffer *b, const char *text, size_t n);
/* Like json_append_string(), but each byte that is not UTF-8 becomes a lone surrogate, as in Python's str (PEP 383). */
int json_append_bytes(struct buffer *b, const char *bytes, size_t n);

/*
 * A document that can be changed. No other file uses yyjson's own: what is written from the start is written by json-out.h.
 */
struct json_tree;

/* A copy of a value, or an empty object for NULL. NULL: no memory. */
struct json_tree *json_tree_new(yyjson_val *root);
struct json_tree *json_tree_free(struct json_tree *tree);
/* Puts n bytes of JSON at a JSON pointer (RFC 6901), with the objects above it. Returns 0, -ENOENT if the tree can have no such place,
 * -EBADMSG if the bytes are not JSON, or -ENOMEM. */
int json_tree_put(struct json_tree *tree, const char *pointer, const char *json, size_t n);
/* Merges a patch (RFC 7396). Returns 0 or -ENOMEM. */
int json_tree_merge(struct json_tree *tree, yyjson_val *patch);
/* Removes a member of the object that the keys lead to, if it exists. */
void json_tree_remove(struct json_tree *tree, const char *const *keys, const char *name);
/* Whether both have the same values; the order of members does not count. */
bool json_tree_equals(const struct json_tree *a, const struct json_tree *b);
/* As JSON with line breaks, as a new string, which the caller frees. Returns 0 or -ENOMEM. */
int json_tree_write(const struct json_tree *tree, char **ret, size_t *n);

static inline void cleanup_json_doc(yyjson_doc **d)
{
        yyjson_doc_free(*d);
}
#define _cleanup_json_ _cleanup_(cleanup_json_doc)
