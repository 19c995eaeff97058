/* A minimal MCP server over standard input and output with one tool, `echo`. It parses each
 * request. */
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/cleanup.h"

static yyjson_mut_val *initialize(yyjson_mut_doc *doc, yyjson_val *params)
{
        yyjson_mut_val *result = yyjson_mut_obj(doc), *info, *capabilities;

        yyjson_mut_obj_add_val(doc, result, "protocolVersion",
                               yyjson_val_mut_copy(doc, yyjson_obj_get(params, "protocolVersion")));
        capabilities = yyjson_mut_obj_add_obj(doc, result, "capabilities");
        yyjson_mut_obj_add_obj(doc, capabilities, "tools");
        info = yyjson_mut_obj_add_obj(doc, result, "serverInfo");
        yyjson_mut_obj_add_str(doc, info, "name", "echo");
        yyjson_mut_obj_add_str(doc, info, "version", "1");
        return result;
}

static yyjson_mut_val *list(yyjson_mut_doc *doc)
{
        yyjson_mut_val *result = yyjson_mut_obj(doc), *tool, *schema, *properties, *message;

        tool = yyjson_mut_arr_add_obj(doc, yyjson_mut_obj_add_arr(doc, result, "tools"));
        yyjson_mut_obj_add_str(doc, tool, "name", "echo");
        yyjson_mut_obj_add_str(doc, tool, "description", "gives back what it gets");
        schema = yyjson_mut_obj_add_obj(doc, tool, "inputSchema");
        yyjson_mut_obj_add_str(doc, schema, "type", "object");
        properties = yyjson_mut_obj_add_obj(doc, schema, "properties");
        message = yyjson_mut_obj_add_obj(doc, properties, "message");
        yyjson_mut_obj_add_str(doc, message, "type", "string");
        return result;
}

static yyjson_mut_val *call(yyjson_mut_doc *doc, yyjson_val *params)
{
        yyjson_val *arguments = yyjson_obj_get(params, "arguments");
        yyjson_mut_val *result = yyjson_mut_obj(doc), *block;

        block = yyjson_mut_arr_add_obj(doc, yyjson_mut_obj_add_arr(doc, result, "content"));
        yyjson_mut_obj_add_str(doc, block, "type", "text");
        yyjson_mut_obj_add_val(doc, block, "text",
                               yyjson_val_mut_copy(doc, yyjson_obj_get(arguments, "message")));
        return result;
}

static yyjson_mut_val *result_of(yyjson_mut_doc *doc, const char *method, yyjson_val *params)
{
        if (strcmp(method, "initialize") == 0)
                return initialize(doc, params);
        if (strcmp(method, "tools/list") == 0)
                return list(doc);
        return strcmp(method, "tools/call") == 0 ? call(doc, params) : NULL;
}

/* The response to one message, or NULL if none is due. */
static char *answer(yyjson_val *request, size_t *ret_length)
{
        yyjson_val *id = yyjson_obj_get(request, "id");
        const char *method = yyjson_get_str(yyjson_obj_get(request, "method"));
        yyjson_mut_doc *doc;
        yyjson_mut_val *root, *result, *error;
        char *text;

        if (!id || !method)
                return NULL;
        doc = yyjson_mut_doc_new(NULL);
        root = yyjson_mut_obj(doc);
        yyjson_mut_doc_set_root(doc, root);
        yyjson_mut_obj_add_str(doc, root, "jsonrpc", "2.0");
        yyjson_mut_obj_add_val(doc, root, "id", yyjson_val_mut_copy(doc, id));
        result = result_of(doc, method, yyjson_obj_get(request, "params"));
        if (result) {
                yyjson_mut_obj_add_val(doc, root, "result", result);
        } else {
                error = yyjson_mut_obj_add_obj(doc, root, "error");
                yyjson_mut_obj_add_int(doc, error, "code", -32601);
                yyjson_mut_obj_add_str(doc, error, "message", "no such method");
        }
        text = yyjson_mut_write(doc, YYJSON_WRITE_NEWLINE_AT_END, ret_length);
        yyjson_mut_doc_free(doc);
        return text;
}

int main(void)
{
        _cleanup_free_ char *line = NULL;
        size_t room = 0, length;
        ssize_t n;

        while ((n = getline(&line, &room, stdin)) > 0) {
                yyjson_doc *doc = yyjson_read(line, (size_t)n, 0);
                _cleanup_free_ char *reply = answer(yyjson_doc_get_root(doc), &length);

                yyjson_doc_free(doc);
                if (reply && (fwrite(reply, 1, length, stdout) != length || fflush(stdout) != 0))
                        return 1;
        }
        return 0;
}
