/* A minimal MCP server over standard input and output with one tool, `echo`. It parses each
 * request. */
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/json-out.h"
#include "base/json.h"

enum { ANSWER_MAX = 1 << 30 };

static const char tools[] =
        "{\"tools\":[{\"name\":\"echo\",\"description\":\"gives back what it gets\","
        "\"inputSchema\":{\"type\":\"object\",\"properties\":"
        "{\"message\":{\"type\":\"string\"}}}}]}";
static const char server[] = "{\"name\":\"echo\",\"version\":\"1\"}";
static const char no_method[] = "{\"code\":-32601,\"message\":\"no such method\"}";

static void put_result(struct json_out *out, const char *method, yyjson_val *params)
{
        if (strcmp(method, "tools/list") == 0) {
                json_out_raw(out, "result", tools, sizeof(tools) - 1);
        } else if (strcmp(method, "initialize") == 0) {
                json_out_begin(out, "result", '{');
                json_out_value(out, "protocolVersion", yyjson_obj_get(params, "protocolVersion"));
                json_out_raw(out, "capabilities", "{\"tools\":{}}", 12);
                json_out_raw(out, "serverInfo", server, sizeof(server) - 1);
                json_out_end(out, '}');
        } else if (strcmp(method, "tools/call") == 0) {
                json_out_begin(out, "result", '{');
                json_out_begin(out, "content", '[');
                json_out_begin(out, NULL, '{');
                json_out_text(out, "type", "text");
                json_out_value(out, "text", yyjson_ptr_get(params, "/arguments/message"));
                json_out_end(out, '}');
                json_out_end(out, ']');
                json_out_end(out, '}');
        } else {
                json_out_raw(out, "error", no_method, sizeof(no_method) - 1);
        }
}

/* Appends the response to one message, if one is due. */
static int answer(yyjson_val *request, struct buffer *to)
{
        yyjson_val *id = yyjson_obj_get(request, "id");
        const char *method = yyjson_get_str(yyjson_obj_get(request, "method"));
        struct json_out out = {.to = to};

        if (!id || !method)
                return 0;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "jsonrpc", "2.0");
        json_out_value(&out, "id", id);
        put_result(&out, method, yyjson_obj_get(request, "params"));
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append_text(to, "\n");
}

int main(void)
{
        _cleanup_buffer_ struct buffer reply = BUFFER_INIT(ANSWER_MAX);
        _cleanup_free_ char *line = NULL;
        size_t room = 0;
        ssize_t n;

        while ((n = getline(&line, &room, stdin)) > 0) {
                _cleanup_json_ yyjson_doc *doc = NULL;

                if (json_parse(line, (size_t)n, &doc, NULL) < 0 ||
                    answer(yyjson_doc_get_root(doc), &reply) < 0 ||
                    fwrite(buffer_bytes(&reply), 1, reply.length, stdout) != reply.length ||
                    fflush(stdout) != 0)
                        return 1;
                buffer_consume(&reply, reply.length);
        }
        return 0;
}
