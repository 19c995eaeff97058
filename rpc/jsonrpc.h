/*
 * JSON-RPC 2.0 messages as MCP uses them (https://www.jsonrpc.org/specification; MCP "Base
 * Protocol"), in both directions: the server reads requests and writes responses, the hub the other
 * way round.
 *
 *     struct jsonrpc_message m;
 *     int r = jsonrpc_parse(line, n, &m, &err);
 *     if (r < 0)
 *             jsonrpc_append_error(out, m.id, r == -EBADMSG ? JSONRPC_PARSE_ERROR :
 * JSONRPC_INVALID_REQUEST, err.text, NULL, 0); else switch (m.kind) … jsonrpc_done(&m);
 *
 * Lines are cut by rpc/lines.h. Numbers stay raw (base/json.h), so an id goes back exactly as it
 * came.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

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
        JSONRPC_KIND_MAX,
};

enum {
        JSONRPC_PARSE_ERROR = -32700,
        JSONRPC_INVALID_REQUEST = -32600,
        JSONRPC_METHOD_NOT_FOUND = -32601,
        JSONRPC_INVALID_PARAMS = -32602,
        JSONRPC_INTERNAL_ERROR = -32603,

        JSONRPC_BATCH_MAX = 1000, /* elements; more is -EINVAL */
};

/* Strings and values point into the document and live as long as the message. */
struct jsonrpc_message {
        yyjson_doc *doc; /* owned; NULL for an element of a batch */
        enum jsonrpc_kind kind;
        yyjson_val *id; /* a string or a number; NULL when there is none (or null, in an ERROR) */
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

const char *jsonrpc_kind_name(enum jsonrpc_kind kind);

/*
 * Parses one message. *ret is always set, and jsonrpc_done() is due in every case. Returns 0,
 * -EBADMSG when it is not JSON (or deeper than JSON_DEPTH_MAX), -EINVAL when it is JSON and no
 * message (ret->id is then the id, if it has a usable one), -ENOMEM.
 */
int jsonrpc_parse(const char *data, size_t n, struct jsonrpc_message *ret, struct error *err);

/* The same for a parsed value that somebody else owns: an element of a batch. A batch in a batch is
 * -EINVAL. */
int jsonrpc_classify(yyjson_val *value, struct jsonrpc_message *ret, struct error *err);

void jsonrpc_done(struct jsonrpc_message *message);

/* Whether this id is the number n, as a client that counts its requests asks. */
bool jsonrpc_id_is(yyjson_val *id, int64_t n);

/*
 * The number that is the id of the response which a line was meant to be, though it is no JSON
 * (NaN, half a surrogate pair, cut at a bound): a guess, so that whoever waits for it learns at
 * once what a timeout would never say.
 */
bool jsonrpc_guess_id(const char *line, size_t n, int64_t *ret);

/*
 * Each appends one whole message and its newline, or nothing: 0, -EMSGSIZE, -ENOMEM, -EINVAL (a
 * value that cannot be written). params, result and data are n bytes of JSON on one line (the
 * json_append…() functions write such), or NULL: no such member. id NULL is written as null. In a
 * batch's answer, drop the newline (the buffer's last byte).
 */
int jsonrpc_append_request(struct buffer *b, int64_t id, const char *method, const char *params,
                           size_t n);
/* With members of an object, as text, before those of params, which must be an object. NULL: none.
 */
int jsonrpc_append_request_with(struct buffer *b, int64_t id, const char *method,
                                const char *members, const char *params, size_t n);
int jsonrpc_append_notification(struct buffer *b, const char *method, const char *params, size_t n);
int jsonrpc_append_result(struct buffer *b, yyjson_val *id, const char *result, size_t n);
int jsonrpc_append_error(struct buffer *b, yyjson_val *id, int code, const char *message,
                         const char *data, size_t n);

static inline void cleanup_jsonrpc(struct jsonrpc_message *message)
{
        jsonrpc_done(message);
}
#define _cleanup_jsonrpc_ _cleanup_(cleanup_jsonrpc)
