/* Blank results. */
#include "supervisor/trust/plans/blank.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"

enum { DEPTH_MAX = 8, BLANK_MAX = 64 * 1024 };

static const char *type_of(yyjson_val *schema)
{
        yyjson_val *type = yyjson_obj_get(schema, "type");
        const char *text = yyjson_get_str(yyjson_is_arr(type) ? yyjson_arr_get_first(type) : type);

        if (text)
                return text;
        return yyjson_obj_get(schema, "properties") ? "object" : "null";
}

static void put_blank(struct json_out *out, yyjson_val *schema, unsigned depth);

/* All properties that it must have. */
static void put_object(struct json_out *out, yyjson_val *schema, unsigned depth)
{
        yyjson_val *required = yyjson_obj_get(schema, "required"), *name;
        size_t i, n;

        json_out_begin(out, NULL, '{');
        yyjson_arr_foreach (required, i, n, name) {
                yyjson_val *of = yyjson_obj_getn(yyjson_obj_get(schema, "properties"),
                                                 yyjson_get_str(name), yyjson_get_len(name));
                if (!yyjson_is_str(name) || depth == 0)
                        continue;
                json_out_key(out, yyjson_get_str(name), yyjson_get_len(name));
                put_blank(out, of, depth - 1);
        }
        json_out_end(out, '}');
}

static void put_blank(struct json_out *out, yyjson_val *schema, unsigned depth)
{
        static const struct {
                const char *type, *json;
        } simple[] = {{"string", "\"\""},
                      {"integer", "0"},
                      {"number", "0"},
                      {"boolean", "false"},
                      {"array", "[]"}};
        yyjson_val *fixed = yyjson_obj_get(schema, "const"),
                   *first = yyjson_arr_get_first(yyjson_obj_get(schema, "enum"));
        const char *type = type_of(schema);

        if (fixed || first) {
                json_out_value(out, NULL, fixed ? fixed : first);
                return;
        }
        if (strcmp(type, "object") == 0) {
                put_object(out, schema, depth);
                return;
        }
        for (size_t i = 0; i < sizeof(simple) / sizeof(*simple); i++) {
                if (strcmp(type, simple[i].type) == 0) {
                        json_out_raw(out, NULL, simple[i].json, strlen(simple[i].json));
                        return;
                }
        }
        json_out_raw(out, NULL, "null", 4);
}

/* The value as structured content, and as text for tools without an outputSchema. */
static int put_result(const char *json, size_t n, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "content", '[');
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "type", "text");
        json_out_string(&out, "text", json, n);
        json_out_end(&out, '}');
        json_out_end(&out, ']');
        if (n > 0)
                json_out_raw(&out, "structuredContent", json, n);
        json_out_end(&out, '}');
        return out.error;
}

static bool is_whole(const char *planned)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (json_parse(planned, strlen(planned), &doc, NULL) < 0)
                return false;
        yyjson_val *root = yyjson_doc_get_root(doc);
        return yyjson_is_arr(yyjson_obj_get(root, "content"));
}

int blank_result(yyjson_val *tool, const char *planned, struct buffer *to)
{
        _cleanup_buffer_ struct buffer value = BUFFER_INIT(BLANK_MAX);
        yyjson_val *schema = yyjson_obj_get(tool, "outputSchema");
        struct json_out out = {.to = &value};

        if (planned)
                return is_whole(planned) ? buffer_append_text(to, planned)
                                         : put_result(planned, strlen(planned), to);
        if (!yyjson_is_obj(schema))
                return put_result("", 0, to);
        put_object(&out, schema, DEPTH_MAX);
        return out.error < 0 ? out.error : put_result(buffer_bytes(&value), value.length, to);
}
