/*
 * JSON-RPC 2.0 messages as MCP uses them (https://www.jsonrpc.org/specification; MCP "Base
 * Protocol"). The MCP server reads requests and writes responses; the hub writes requests and reads
 * responses.
 *
 *     struct jsonrpc_message m;
 *     int r = jsonrpc_parse(line, n, &m, &err);
 *     if (r < 0)
 *             jsonrpc_append_error(out, m.id, JSONRPC_INVALID_REQUEST, err.text, NULL, 0);
 *     else
 *             switch (m.kind) …
 *     jsonrpc_done(&m);
 *
 * rpc/lines.h splits a stream into lines. Numbers stay raw (base/json.h), so that an id is returned
 * exactly as it was received.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

enum jsonrpc_kind {
        JSONRPC_INVALID, /* not a message: after a failed parse */
        JSONRPC_REQUEST,
        JSONRPC_NOTIFICATION,
        JSONRPC_RESPONSE, /* with a result */
        JSONRPC_ERROR,    /* a response with an error */
        JSONRPC_BATCH,    /* an array with at least one element; only MCP 2025-03-26 has them */
};

enum {
        JSONRPC_PARSE_ERROR = -32700,
        JSONRPC_INVALID_REQUEST = -32600,
        JSONRPC_METHOD_NOT_FOUND = -32601,
        JSONRPC_INVALID_PARAMS = -32602,
        JSONRPC_INTERNAL_ERROR = -32603,

        JSONRPC_BATCH_MAX = 1000, /* elements; a larger batch is -EINVAL */
};

/* Strings and values point into the document and are valid as long as the message. */
struct jsonrpc_message {
        yyjson_doc *doc; /* owned; NULL for an element of a batch */
        enum jsonrpc_kind kind;
        yyjson_val *id; /* a string or an integer; NULL when there is none (or null, in an ERROR) */
        const char *method; /* REQUEST, NOTIFICATION; may hold NUL bytes: see method_length */
        size_t method_length;
        yyjson_val *params; /* an object or an array, or NULL */
        yyjson_val *result; /* RESPONSE: any value, null included */
        const char *text;   /* of a result that is an object, as it was written: in what was
                               parsed, valid as long as that; or NULL */
        size_t text_length;
        int64_t error_code;        /* ERROR */
        const char *error_message; /* ERROR; "" when it has none */
        yyjson_val *error_data;    /* ERROR; or NULL */
        yyjson_val *batch;         /* BATCH: the array; jsonrpc_classify() takes each element */
};

static inline bool jsonrpc_method_is(const struct jsonrpc_message *message, const char *name)
{
        return message->method_length == strlen(name) &&
               memcmp(message->method, name, message->method_length) == 0;
}

/*
 * Parses one message. *ret is always set, and the caller must call jsonrpc_done(). Returns 0,
 * -EBADMSG when it is not JSON (or deeper than JSON_DEPTH_MAX), -EINVAL when it is JSON but not a
 * message (ret->id is then the id, if it has a valid one), -ENOTUNIQ when an object in it has two members of one name (the same;
 * but in structuredContent of a result), -ENOMEM.
 */
int jsonrpc_parse(const char *data, size_t n, struct jsonrpc_message *ret, struct error *err);

/* Classifies a parsed value, which is borrowed: an element of a batch. A batch in a batch is -EINVAL.
 */
int jsonrpc_classify(yyjson_val *value, struct jsonrpc_message *ret, struct error *err);

void jsonrpc_done(struct jsonrpc_message *message);

/* Whether this id is the number n. */
bool jsonrpc_id_is(yyjson_val *id, int64_t n);
/* Whether both are the same id, written in the same way. NULL is not an id. */
bool jsonrpc_id_equals(yyjson_val *a, yyjson_val *b);
/* Copies an id into its own document, so that it outlives its message. Returns 0, -EMSGSIZE (its text is longer than
 * most bytes), -ENOMEM. */
int jsonrpc_id_copy(yyjson_val *id, size_t most, yyjson_doc **ret);

/*
 * Guesses the id of a response that is not valid JSON (it has NaN, half a surrogate pair, or was
 * cut), so that its request fails at once with the reason, and not by a timeout. Returns whether a
 * number was found.
 */
bool jsonrpc_guess_id(const char *line, size_t n, int64_t *ret);

/*
 * Each appends one message and a newline, or nothing. Returns 0, -EMSGSIZE, -ENOMEM, -EINVAL (a
 * value that cannot be written). params, result and data are n bytes of JSON in one line (as written
 * by json_append…()), or NULL: no such member. The same holds for an id of NULL. In the answer to a
 * batch, remove the newline (the last byte of the buffer).
 */
int jsonrpc_append_request(struct buffer *b, int64_t id, const char *method, const char *params,
                           size_t n);
/* The beginning of the same, up to params or the beginning of them; JSONRPC_END ends the message. members:
 * more members of params, as text, or NULL: params must be an object then. */
int jsonrpc_begin_request(struct buffer *b, int64_t id, const char *method, const char *members,
                          const char *params, size_t n);
#define JSONRPC_END "}\n"
int jsonrpc_append_notification(struct buffer *b, const char *method, const char *params, size_t n);
int jsonrpc_append_result(struct buffer *b, yyjson_val *id, const char *result, size_t n);
int jsonrpc_append_error(struct buffer *b, yyjson_val *id, int code, const char *message,
                         const char *data, size_t n);

#define _cleanup_jsonrpc_ _cleanup_(jsonrpc_done)
