/* Displays and lists of files: their format and their bounds. */
#include "supervisor/session/cell/cell-result.h"

#include "rpc/frame.h"

#include <errno.h>

#include "base/file-path.h"
#include "tests/unit/fake-tools.h"

static int show(struct cell_outcome *o, const char *payload)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        int r = json_parse(payload, strlen(payload), &doc, &err);
        return r < 0 ? r : cell_take_display(o, yyjson_doc_get_root(doc), NULL, &err);
}

static void test_mime_types(void)
{
        static const char *const good[] = {"image/png", "image/svg+xml", "a/b",
                                           "application/vnd.ms-excel.sheet.12"};
        static const char *const bad[] = {"",      "image",     "/png",  "image/",
                                          "a/b/c", "Image/png", "a b/c", "text/html; charset=utf-8",
                                          "a/\n"};
        char longest[CELL_MIME_MAX + 2];

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                check(mime_type_valid(good[i], strlen(good[i])));
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                check(!mime_type_valid(bad[i], strlen(bad[i])));
        check(!mime_type_valid("a\0/b", 4));
        memset(longest, 'a', sizeof(longest));
        longest[1] = '/';
        check(mime_type_valid(longest, CELL_MIME_MAX));
        check(!mime_type_valid(longest, CELL_MIME_MAX + 1));
}

static void test_paths(void)
{
        static const char *const good[] = {
                "a",
                "a/b.csv",
                "...",
                "a b",
                ".hidden",
                "d\xc3\xa9j\xc3\xa0",
                "..a/b..",
                "\xd7\x90\xe2\x80\x8f.txt" /* a letter that is written from the right, and a mark */};
        static const char *const bad[] = {"",
                                          "/a",
                                          "a/",
                                          "a//b",
                                          ".",
                                          "..",
                                          "../a",
                                          "a/..",
                                          "a/../b",
                                          "a/./b",
                                          "a\nb",
                                          "a\x7f",
                                          "\xff",
                                          "a\xc2\x85 b",
                                          "\xe2\x80\xa8",
                                          "a\342\200\256fdp.exe",
                                          "\342\201\246a"};
        char longest[CELL_PATH_MAX + 1];

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                check(file_path_valid(good[i], strlen(good[i])));
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                check(!file_path_valid(bad[i], strlen(bad[i])));
        check(!file_path_valid("a\0b", 3));
        memset(longest, 'a', sizeof(longest));
        check(file_path_valid(longest, CELL_PATH_MAX));
        check(!file_path_valid(longest, CELL_PATH_MAX + 1));
}

static void test_displays(void)
{
        struct cell_outcome o = {};

        check_eq_int(show(&o, "{\"mime\":\"image/png\",\"data\":\"iVBORw==\"}"), 0);
        check_eq_int(show(&o, "{\"mime\":\"text/html\",\"text\":\"<b>\\u00e9</b>\"}"), 0);
        check_eq_int(o.n_displays, 2);
        check(!o.displays[0].is_text && o.displays[1].is_text);
        check_eq_bytes(buffer_bytes(&o.displays[0].data), o.displays[0].data.length, "iVBORw==");
        check_eq_str(o.displays[1].mime_type, "text/html");
        check_eq_int(show(&o, "{\"mime\":\"text/html\",\"text\":\"a\",\"data\":\"\"}"), -EBADMSG);
        check_eq_int(show(&o, "[]"), -EBADMSG);
        check_eq_int(show(&o, "{"), -EBADMSG);
        check_eq_int(o.displays_total, 2);
        cell_outcome_done(&o);
}

/* Displays beyond a bound are only counted. */
static void test_display_bounds(void)
{
        struct cell_outcome many = {}, large = {};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX);

        for (int i = 0; i < CELL_DISPLAYS_MAX + 5; i++)
                check_eq_int(show(&many, "{\"mime\":\"a/b\",\"text\":\"\"}"), 0);
        check_eq_int(many.n_displays, CELL_DISPLAYS_MAX);
        check_eq_int(many.displays_total, CELL_DISPLAYS_MAX + 5);
        cell_outcome_done(&many);

        buffer_printf(&b, "{\"mime\":\"a/b\",\"data\":\"");
        for (size_t i = 0; i < CELL_DISPLAY_BYTES_MAX / 4 - 1; i++)
                check_eq_int(buffer_append(&b, "AAAA", 4), 0);
        buffer_printf(&b, "\"}");
        check_eq_int(buffer_append(&b, "", 1), 0);
        check_eq_int(show(&large, buffer_bytes(&b)), 0);
        check_eq_int(show(&large, buffer_bytes(&b)), 0);
        check_eq_int(show(&large, "{\"mime\":\"a/b\",\"data\":\"AAAA\"}"), 0);
        check_eq_int(show(&large, "{\"mime\":\"a/b\",\"data\":\"AAAA\"}"), 0);
        check_eq_int(large.n_displays, 2);
        check_eq_int(large.displays_total, 4);
        cell_outcome_done(&large);
}

static void check_shown(const struct cell_outcome *o, size_t i, const char *text)
{
        check_eq_bytes(buffer_bytes(&o->displays[i].data), o->displays[i].data.length, text);
}

/* A display with an id is one display, in its place; it is dropped as a whole if its new content does not fit. */
static void test_display_ids(void)
{
        struct cell_outcome o = {};

        for (int i = 0; i < 3 * CELL_DISPLAYS_MAX; i++)
                check_eq_int(show(&o, "{\"mime\":\"a/b\",\"text\":\"old\",\"id\":7}"), 0);
        check_eq_int(show(&o, "{\"mime\":\"a/b\",\"text\":\"other\"}"), 0);
        check_eq_int(show(&o, "{\"mime\":\"a/b\",\"text\":\"second\",\"id\":8}"), 0);
        check_eq_int(show(&o, "{\"mime\":\"text/html\",\"text\":\"new\",\"id\":7}"), 0);
        check_eq_int(o.n_displays, 3);
        check_eq_int(o.displays_total, 3);
        check_shown(&o, 0, "new");
        check_eq_str(o.displays[0].mime_type, "text/html");
        check_shown(&o, 1, "other");
        check_shown(&o, 2, "second");
        static const char *const bad[] = {"0", "-1", "1.5", "\"x\"", "[]", "null"};
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                char json[128];
                snprintf(json, sizeof(json), "{\"mime\":\"a/b\",\"text\":\"\",\"id\":%s}", bad[i]);
                check_eq_int(show(&o, json), -EBADMSG);
        }
        check_eq_int(o.n_displays, 3);

        cell_outcome_clear(&o);
        check_eq_int(o.n_displays, 0);
        check_eq_int(o.displays_total, 0);
        check_eq_int(show(&o, "{\"mime\":\"a/b\",\"text\":\"last\",\"id\":7}"), 0);
        check_shown(&o, 0, "last");
        cell_outcome_done(&o);
}

static int take(const char *json, size_t most, size_t *n, size_t *total)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct cell_file *files = NULL;
        struct error err = {};

        check_ok(json_parse(json, strlen(json), &doc, &err));
        int r = file_list_take(yyjson_doc_get_root(doc), most, &files, n, total, &err);
        if (r == 0 && *n > 0)
                check_eq_str(files[0].path, "a/b");
        free(files);
        return r;
}

static void test_files(void)
{
        static const char two[] =
                "{\"files\":[{\"path\":\"a/b\",\"mime\":\"text/csv\",\"size\":12345678901},"
                "{\"path\":\"c\",\"mime\":\"text/csv\",\"size\":0}],\"files_total\":7}";
        size_t n = 9, total = 9;

        check_eq_int(take("{}", 2, &n, &total), 0);
        check(n == 0 && total == 0);
        check_eq_int(take(two, 2, &n, &total), 0);
        check(n == 2 && total == 7);
        check_eq_int(take(two, 1, &n, &total), -EBADMSG);
        check_eq_int(take("{\"files\":[1]}", 1, &n, &total), -EBADMSG);
        check_eq_int(take("{\"files\":[],\"files_total\":-4}", 1, &n, &total), 0);
        check_eq_int(total, 0);
}

int main(void)
{
        run(test_mime_types);
        run(test_paths);
        run(test_displays);
        run(test_display_bounds);
        run(test_display_ids);
        run(test_files);
        return 0;
}
