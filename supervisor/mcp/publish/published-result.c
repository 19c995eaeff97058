/* Results of published code. */
#include "supervisor/mcp/publish/published-result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json-out.h"
#include "base/utf8.h"
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/session/cell/cell-result.h"
#include "supervisor/session/cell/output.h"
#include "supervisor/session/cell/result-images.h"

enum { ITEMS_MAX = 1000, COMPLETIONS_MAX = 100, TEXT_MAX = 64 * 1024 * 1024, WHY_MAX = 2048 };

static void put_text_block(struct json_out *out, const char *text, size_t n)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "type", "text");
        json_out_string(out, "text", text, n);
        json_out_end(out, '}');
}

const char *published_failure(const struct cell_outcome *o, char *to, size_t size)
{
        const char *type = json_string(o->error, "type", NULL);
        const char *message = json_string(o->error, "message", NULL);

        if (o->status == CELL_OK)
                return NULL;
        if (o->error_type)
                snprintf(to, size, "%s", o->why);
        else if (o->status != CELL_ERROR)
                snprintf(to, size, "%s%s%s", cell_status_name(o->status), *o->why ? ": " : "",
                         o->why);
        else if (type && strcmp(type, "cloister.ArgumentError") != 0 &&
                 strncmp(type, "cloister.", 9) != 0)
                snprintf(to, size, "%s%s%s", type, message && *message ? ": " : "",
                         message ? message : "");
        else
                snprintf(to, size, "%s", message ? message : "the code failed");
        utf8_trim(to);
        return to;
}

/* Kinds that came with later versions are left out. */
static bool is_known(yyjson_val *block, unsigned kinds)
{
        const char *type = json_string(block, "type", NULL);

        return (kinds & CONTENT_AUDIO || strcmp(type, "audio") != 0) &&
               (kinds & CONTENT_LINKS || strcmp(type, "resource_link") != 0);
}

/* A list of at most ITEMS_MAX. */
static bool is_list(yyjson_val *list)
{
        return yyjson_is_arr(list) && yyjson_arr_size(list) <= ITEMS_MAX;
}

static int put_blocks(struct json_out *out, const struct cell_outcome *o, yyjson_val *list,
                      unsigned kinds)
{
        yyjson_val *block;
        size_t i, n, n_data = 0;

        if (!is_list(list))
                return -EBADMSG;
        yyjson_arr_foreach (list, i, n, block) {
                if (content_block_check(block, NULL) < 0)
                        return -EBADMSG;
                if (cell_picture_of_block(block, &n_data))
                        result_content_put_picture(out, result_images_find(o, block), block);
                else if (is_known(block, kinds))
                        json_out_value(out, NULL, block);
        }
        return 0;
}

/* Puts the output, the displays, and the returned value or why the code returned none. */
static int render_tool(struct json_out *out, const struct cell_outcome *o,
                       const struct published_view *view, unsigned kinds, size_t most)
{
        yyjson_val *content = yyjson_obj_get(o->output, "content");
        yyjson_val *structured = yyjson_obj_get(o->output, "structured");
        char why[WHY_MAX];
        const char *failure = published_failure(o, why, sizeof(why));
        const struct result_options shown = {
                .session = "published", .max_output = most * o->n_displays, .kinds = kinds};

        _cleanup_buffer_ struct buffer printed = BUFFER_INIT(TEXT_MAX);
        bool cut;

        json_out_begin(out, "content", '[');
        int r = capture_render(&o->streams[CELL_STDOUT], most, &printed, &cut);
        if (r >= 0 && printed.length > 0)
                put_text_block(out, buffer_bytes(&printed), printed.length);
        for (size_t i = 0; i < o->n_displays; i++) {
                const struct cell_display *d = &o->displays[i];
                if (d->is_picture && !d->is_block && !cell_picture_is_shown(&d->picture))
                        result_content_put_refused(out, &d->picture, buffer_bytes(&d->data),
                                                   d->data.length);
                else
                        result_content_put_display(out, o, i, &shown);
        }
        if (r >= 0 && !failure && put_blocks(out, o, content, kinds) < 0)
                failure = "the result has another form than MCP's";
        if (r >= 0 && !failure && view->structured && !yyjson_is_obj(structured))
                failure = "the result does not fit the outputSchema";
        if (r >= 0 && !failure && view->structured && !json_fits_doubles(structured))
                failure =
                        "clients in JavaScript round a number of the result: return it as a string";
        if (failure)
                put_text_block(out, failure, strlen(failure));
        json_out_end(out, ']');
        if (!failure && view->structured)
                json_out_value(out, "structuredContent", structured);
        json_out_bool(out, "isError", failure != NULL);
        return r;
}

/* A message has one block: an image that is not shown is its reason. */
static void put_message(struct json_out *out, yyjson_val *role, yyjson_val *content,
                        const struct cell_picture *picture)
{
        char why[CELL_PICTURE_TEXT_MAX], text[CELL_PICTURE_TEXT_MAX + 64];
        size_t n = 0;
        const char *data = json_string(content, "data", &n);
        yyjson_val *resource = cell_picture_resource(content);

        json_out_begin(out, NULL, '{');
        json_out_value(out, "role", role);
        if (picture && resource)
                cell_picture_correct_resource(picture, resource);
        if (!picture || resource) {
                json_out_value(out, "content", content);
        } else if (cell_picture_is_shown(picture)) {
                json_out_key(out, "content", strlen("content"));
                result_content_put_image(out, picture, content, data, n);
        } else {
                cell_picture_describe(picture, why);
                snprintf(text, sizeof(text), "an image is not shown: %s", why);
                json_out_begin(out, "content", '{');
                json_out_text(out, "type", "text");
                json_out_text(out, "text", text);
                json_out_end(out, '}');
        }
        json_out_end(out, '}');
}

static int render_prompt(struct json_out *out, const struct cell_outcome *o, unsigned kinds)
{
        yyjson_val *list = yyjson_obj_get(o->output, "messages"), *message;
        size_t i, n, n_data = 0;

        if (!is_list(list))
                return -EBADMSG;
        json_out_begin(out, "messages", '[');
        yyjson_arr_foreach (list, i, n, message) {
                yyjson_val *role = yyjson_obj_get(message, "role");
                yyjson_val *content = yyjson_obj_get(message, "content");

                if ((!yyjson_equals_str(role, "user") && !yyjson_equals_str(role, "assistant")) ||
                    content_block_check(content, NULL) < 0)
                        return -EBADMSG;
                if (!is_known(content, kinds))
                        continue;
                put_message(out, role, content,
                            cell_picture_of_block(content, &n_data) ? result_images_find(o, content)
                                                                    : NULL);
        }
        json_out_end(out, ']');
        return 0;
}

/* The type of a resource. Bytes that are called a picture are one. */
static void put_type(struct json_out *out, const struct cell_outcome *o,
                     const struct published_view *view, yyjson_val *resource)
{
        const char *type = json_string(resource, "mimeType", NULL);
        const struct cell_picture *picture = result_images_find(o, resource);
        bool is_picture = cell_picture_is_named(type ? type : view->mime_type);

        if (is_picture && yyjson_get_str(yyjson_obj_get(resource, "blob")))
                type = cell_picture_is_shown(picture) ? cell_picture_type(picture)
                                                      : "application/octet-stream";
        else if (!type && *view->mime_type)
                type = view->mime_type;
        if (type)
                json_out_text(out, "mimeType", type);
}

static int render_resource(struct json_out *out, const struct cell_outcome *o,
                           const struct published_view *view)
{
        yyjson_val *list = yyjson_obj_get(o->output, "contents"), *item;
        size_t i, n;

        if (!is_list(list))
                return -EBADMSG;
        json_out_begin(out, "contents", '[');
        yyjson_arr_foreach (list, i, n, item) {
                yyjson_val *uri = yyjson_obj_get(item, "uri");
                bool text = yyjson_is_str(yyjson_obj_get(item, "text"));

                if (content_resource_check(item, false, NULL) < 0)
                        return -EBADMSG;
                json_out_begin(out, NULL, '{');
                if (uri)
                        json_out_value(out, "uri", uri);
                else
                        json_out_text(out, "uri", view->uri);
                put_type(out, o, view, item);
                json_out_value(out, text ? "text" : "blob",
                               yyjson_obj_get(item, text ? "text" : "blob"));
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
        return 0;
}

static int render_completion(struct json_out *out, const struct cell_outcome *o)
{
        yyjson_val *list = yyjson_obj_get(o->output, "values"), *value;
        int64_t total = 0;
        size_t i, n;

        if (!yyjson_is_arr(list) || yyjson_arr_size(list) > COMPLETIONS_MAX ||
            json_int64(yyjson_obj_get(o->output, "total"), &total) < 0 || total < 0)
                return -EBADMSG;
        json_out_begin(out, "completion", '{');
        json_out_begin(out, "values", '[');
        yyjson_arr_foreach (list, i, n, value) {
                if (!yyjson_is_str(value))
                        return -EBADMSG;
                json_out_value(out, NULL, value);
        }
        json_out_end(out, ']');
        json_out_int(out, "total", total);
        json_out_bool(out, "hasMore", total > (int64_t)n);
        json_out_end(out, '}');
        return 0;
}

int published_render(const struct cell_outcome *o, const struct published_view *view,
                     unsigned kinds, size_t most, struct buffer *to)
{
        struct json_out out = {.to = to};
        int r;

        json_out_begin(&out, NULL, '{');
        switch (view->what) {
        case RESULT_OF_TOOL:
                r = render_tool(&out, o, view, kinds, most);
                break;
        case RESULT_OF_PROMPT:
                r = render_prompt(&out, o, kinds);
                break;
        case RESULT_OF_RESOURCE:
                r = render_resource(&out, o, view);
                break;
        default:
                r = render_completion(&out, o);
        }
        json_out_end(&out, '}');
        return r < 0 ? r : out.error;
}
