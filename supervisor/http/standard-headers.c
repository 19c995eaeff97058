/* Headers that repeat the body. */
#include "supervisor/http/standard-headers.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/state.h"

#define BASE64_BEGIN "=?base64?"
#define BASE64_END   "?="

/* Which member of params Mcp-Name repeats. */
static const struct {
        const char *method, *member;
} named[] = {
        {"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
        {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
};

bool standard_headers_say_modern(const struct http_reader *reader)
{
        const char *version = http_request_header(reader, "mcp-protocol-version");

        return version && strcmp(version, MCP_MODERN_VERSION) == 0;
}

bool standard_headers_modern(const struct http_reader *reader,
                             const struct jsonrpc_message *message)
{
        yyjson_val *meta = yyjson_obj_get(message->params, "_meta");

        return standard_headers_say_modern(reader) ||
               (message->kind == JSONRPC_REQUEST &&
                (yyjson_obj_get(meta, META_VERSION) || yyjson_obj_get(meta, META_CAPABILITIES) ||
                 yyjson_obj_get(meta, META_CLIENT)));
}

/* Decodes a value. Returns 0 or -EINVAL. */
static int decode(const char *value, struct buffer *to)
{
        size_t n = strlen(value), begin = strlen(BASE64_BEGIN), end = strlen(BASE64_END);

        for (size_t i = 0; i < n; i++) {
                if ((unsigned char)value[i] > 0x7e)
                        return -EINVAL;
        }
        if (n < begin + end || strncmp(value, BASE64_BEGIN, begin) != 0 ||
            strcmp(value + n - end, BASE64_END) != 0)
                return buffer_append(to, value, n);
        if (!base64_valid(value + begin, n - begin - end, NULL))
                return -EINVAL;
        return base64_decode(to, value + begin, n - begin - end);
}

/* expected: NULL if the body has no such value. */
static int check(const struct http_reader *reader, const char *name, const char *expected, size_t n,
                 struct error *err)
{
        _cleanup_buffer_ struct buffer decoded = BUFFER_INIT(HTTP_HEAD_MAX);
        const char *value = http_request_header(reader, name);

        if (!value && !expected)
                return 0;
        if (!value)
                return error_set(err, EBADMSG, "header mismatch: %s is missing", name);
        if (decode(value, &decoded) < 0)
                return error_set(err, EBADMSG, "header mismatch: %s cannot be decoded", name);
        if (!expected || decoded.length != n ||
            (n > 0 && memcmp(buffer_bytes(&decoded), expected, n) != 0))
                return error_set(err, EBADMSG, "header mismatch: %s is not the value in the body",
                                 name);
        return 0;
}

static int check_name(const struct http_reader *reader, const struct jsonrpc_message *message,
                      struct error *err)
{
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
                if (!jsonrpc_method_is(message, named[i].method))
                        continue;
                const char *name = json_string(message->params, named[i].member, &n);
                return name ? check(reader, "mcp-name", name, n, err) : 0;
        }
        return 0;
}

static bool runs_code(yyjson_val *tool)
{
        return yyjson_equals_str(tool, "run_python") || yyjson_equals_str(tool, "run_javascript");
}

int standard_headers_check(const struct http_reader *reader, const struct jsonrpc_message *message,
                           struct error *err)
{
        yyjson_val *meta = yyjson_obj_get(message->params, "_meta");
        yyjson_val *session = yyjson_obj_get(yyjson_obj_get(message->params, "arguments"),
                                             "session");
        size_t n = 0;
        const char *version = json_string(meta, META_VERSION, &n);

        if (!http_request_header(reader, "mcp-protocol-version"))
                return error_set(err, EBADMSG, "header mismatch: mcp-protocol-version is missing");
        int r = version ? check(reader, "mcp-protocol-version", version, n, err) : 0;
        if (r >= 0)
                r = check(reader, "mcp-method", message->method, message->method_length, err);
        if (r >= 0)
                r = check_name(reader, message, err);
        /* Anything but a string is an error of the argument. */
        if (r >= 0 && runs_code(yyjson_obj_get(message->params, "name")) &&
            (!session || yyjson_is_null(session) || yyjson_is_str(session)))
                r = check(reader, "mcp-param-session", yyjson_get_str(session),
                          yyjson_get_len(session), err);
        return r;
}
