/* Displays and files in both parts of a result. */
#include "supervisor/mcp/call/result-content.h"

#include <signal.h>

#include "base/json.h"
#include "supervisor/mcp/call/result.h"
#include "supervisor/session/cell/cell-result.h"
#include "tests/unit/test.h"

static yyjson_doc *rendered;

static void show(struct cell_outcome *o, const char *payload)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse(payload, strlen(payload), &doc, &err));
        check_ok(cell_take_display(o, yyjson_doc_get_root(doc), NULL, &err));
}

static yyjson_val *render(struct cell_outcome *o, size_t most, unsigned kinds)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(RESULT_MAX);
        const struct result_options view = {
                .session = "my-session", .max_output = most, .kinds = kinds};
        struct error err = {};

        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&o->streams[i]);
        yyjson_doc_free(rendered);
        rendered = NULL;
        check_eq_int(result_render(o, &view, &b), 0);
        check_ok(json_parse(buffer_bytes(&b), b.length, &rendered, &err));
        return yyjson_doc_get_root(rendered);
}

static void check_json(yyjson_val *root, const char *pointer, const char *expected)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024 * 1024);

        check_eq_int(json_append(&b, yyjson_ptr_get(root, pointer)), 0);
        check_eq_bytes(buffer_bytes(&b), b.length, expected);
}

static void done(struct cell_outcome *o)
{
        cell_outcome_done(o);
        yyjson_doc_free(rendered);
        rendered = NULL;
}

static void test_displays(void)
{
        struct cell_outcome o = {};

        show(&o, "{\"mime\":\"image/png\",\"data\":\"iVBORw==\"}");
        o.displays[0].picture.answer = (struct picture_answer){.verdict = PICTURE_FINE,
                                                               .type = PICTURE_PNG};
        show(&o, "{\"mime\":\"audio/wav\",\"data\":\"UklGRg==\"}");
        show(&o, "{\"mime\":\"text/html\",\"text\":\"<b>x</b>\"}");
        show(&o, "{\"mime\":\"image/svg+xml\",\"text\":\"<svg/>\"}");
        show(&o, "{\"mime\":\"image/tiff\",\"data\":\"SUkqAA==\"}");
        yyjson_val *root = render(&o, 1000, CONTENT_ALL);
        check_eq_int(yyjson_arr_size(yyjson_obj_get(root, "content")), 6);
        check_json(
                root, "/content/0/text",
                "\"displayed: image/png (4 bytes), audio/wav (4 bytes), text/html (8 bytes), image/svg+xml (6 bytes), image/tiff (4 bytes)\"");
        check_json(root, "/content/1",
                   "{\"type\":\"image\",\"data\":\"iVBORw==\",\"mimeType\":\"image/png\"}");
        check_json(root, "/content/2",
                   "{\"type\":\"audio\",\"data\":\"UklGRg==\",\"mimeType\":\"audio/wav\"}");
        check_json(root, "/content/3", "{\"type\":\"text\",\"text\":\"<b>x</b>\"}");
        check_json(root, "/content/4",
                   "{\"type\":\"resource\",\"resource\":{\"uri\":\"cloister://sessions/my-session/"
                   "displays/4\",\"mimeType\":\"image/svg+xml\",\"text\":\"<svg/>\"}}");
        check_json(root, "/content/5/resource/blob", "\"SUkqAA==\"");
        check_json(root, "/structuredContent/displays/2",
                   "{\"mime_type\":\"text/html\",\"bytes\":8,\"text\":\"<b>x</b>\"}");
        check_json(root, "/structuredContent/displays/0",
                   "{\"mime_type\":\"image/png\",\"bytes\":4}");
        check(!yyjson_ptr_get(root, "/structuredContent/displays_total"));
        /* An older client supports neither audio content nor links. */
        root = render(&o, 1000, 0);
        check_json(root, "/content/2/type", "\"resource\"");
        done(&o);
}

static void test_pictures(void)
{
        struct cell_outcome o = {};
        struct picture_answer cut = {.verdict = PICTURE_REFUSED,
                                     .reason = PICTURE_REASON_CUT,
                                     .type = PICTURE_PNG,
                                     .width = 2,
                                     .height = 1200,
                                     .rows = 412},
                              made = {.verdict = PICTURE_MADE,
                                      .type = PICTURE_JPEG,
                                      .made = PICTURE_PNG,
                                      .width = 9000,
                                      .height = 20,
                                      .made_width = 2000,
                                      .made_height = 4,
                                      .made_length = 12};

        for (int i = 0; i < 4; i++)
                show(&o, "{\"mime\":\"image/png\",\"data\":\"iVBORw==\"}");
        cell_picture_take(&o.displays[1].picture, &cut, NULL);
        cell_picture_take(&o.displays[2].picture, &made, strdup("iVBORw0KGgo="));
        /* It is not of the type that it should be. */
        cell_picture_take(&o.displays[3].picture, &made, strdup("/9j/AAAAAAA="));
        yyjson_val *root = render(&o, 1000, CONTENT_ALL);
        check_json(
                root, "/content/0/text",
                "\"displayed: application/octet-stream (4 bytes), image/png (4 bytes), image/png (4 bytes), application/octet-stream (4 bytes)\\n"
                "image 1 is not shown: it could not be checked\\n"
                "image 2 is not shown: PNG, cut after 412 of 1,200 rows\\n"
                "image 3 is shown with 2,000 x 4 pixels instead of 9,000 x 20\\n"
                "image 4 is not shown: it could not be checked\"");
        check_json(root, "/content/1/resource/mimeType", "\"application/octet-stream\"");
        check_json(root, "/content/2/type", "\"resource\"");
        check_json(root, "/content/3",
                   "{\"type\":\"image\",\"data\":\"iVBORw0KGgo=\",\"mimeType\":\"image/png\"}");
        check_json(root, "/content/4/type", "\"resource\"");
        done(&o);
}

static void test_bounds(void)
{
        struct cell_outcome o = {};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(16 * 1024 * 1024);

        buffer_printf(&b, "{\"mime\":\"image/png\",\"data\":\"");
        for (size_t i = 0; i <= CONTENT_IMAGE_MAX / 4; i++)
                buffer_append(&b, "AAAA", 4);
        buffer_append(&b, "\"}", 3);
        show(&o, buffer_bytes(&b));
        o.displays[0].picture.answer = (struct picture_answer){
                .verdict = PICTURE_REFUSED, .type = PICTURE_PNG, .reason = PICTURE_REASON_BYTES};
        o.displays_total += 2;
        yyjson_val *root = render(&o, 1000, CONTENT_ALL);
        check_eq_int(yyjson_arr_size(yyjson_obj_get(root, "content")), 1);
        check_json(
                root, "/content/0/text",
                "\"displayed: image/png (3840 KiB: too large to show) and 2 more, which were not kept (32 of one call, 16 MiB)\\nimage 1 is not shown: PNG, larger than the limit in bytes\"");
        check_json(root, "/structuredContent/displays_total", "3");
        done(&o);

        /* Text is cut like output. */
        buffer_consume(&b, b.length);
        buffer_printf(&b, "{\"mime\":\"text/html\",\"text\":\"%05000d\"}", 0);
        buffer_append(&b, "", 1);
        show(&o, buffer_bytes(&b));
        root = render(&o, 100, CONTENT_ALL);
        check(yyjson_get_len(yyjson_ptr_get(root, "/content/1/text")) < 300);
        check_has(yyjson_get_str(yyjson_ptr_get(root, "/structuredContent/displays/0/text")),
                  "characters cut here");
        done(&o);
}

static void test_files(void)
{
        struct cell_outcome o = {.n_files = 2, .files_total = 5};

        o.files = calloc(2, sizeof(*o.files));
        o.files[0] = (struct cell_file){"d/a b?.csv", "text/csv", 1234};
        o.files[1] = (struct cell_file){"\xc3\xa9.png", "image/png", 123456};
        yyjson_val *root = render(&o, 1000, CONTENT_ALL);
        check_json(
                root, "/content/0/text",
                "\"files in /workspace/out: d/a b?.csv (1234 bytes), \xc3\xa9.png (120 KiB) and 3 more\"");
        check_json(root, "/content/1",
                   "{\"type\":\"resource_link\",\"uri\":\"cloister://sessions/my-session/files/d/"
                   "a%20b%3F.csv\",\"name\":\"a b?.csv\",\"mimeType\":\"text/csv\",\"size\":1234}");
        check_json(root, "/content/2/uri", "\"cloister://sessions/my-session/files/%C3%A9.png\"");
        check_json(root, "/structuredContent/files/0",
                   "{\"path\":\"d/a b?.csv\",\"size\":1234,\"mime_type\":\"text/csv\"}");
        check_json(root, "/structuredContent/files_total", "5");
        root = render(&o, 1000, CONTENT_AUDIO);
        check_eq_int(yyjson_arr_size(yyjson_obj_get(root, "content")), 1);
        done(&o);
}

int main(void)
{
        run(test_displays);
        run(test_pictures);
        run(test_bounds);
        run(test_files);
        return 0;
}
