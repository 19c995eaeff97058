/* JSON: values are passed on unchanged, hostile ones are refused. */
#include "base/json.h"

#include "tests/unit/test.h"

static yyjson_doc *parsed(const char *text)
{
        yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse(text, strlen(text), &doc, &err));
        return doc;
}

static void check_round(const char *text, const char *expected)
{
        _cleanup_json_ yyjson_doc *doc = parsed(text);
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);

        check_eq_int(json_append(&b, yyjson_doc_get_root(doc)), 0);
        check_eq_bytes(buffer_bytes(&b), b.length, expected);
}

static void test_values_are_unchanged(void)
{
        static const char *const same[] = {
                "1.50",
                "-0",
                "1E400",
                "0.1e-7",
                "123456789012345678901234567890",
                "[1,[2,{\"a\":null,\"b\":true,\"\":\"\"}]]",
                "\"\\u0000\\u001F\x7f\"",
                "\"é€😀\"",
                "{\"a\":1,\"a\":2}",
                "\"\\\\\\\"/\"",
        };

        for (size_t i = 0; i < ARRAY_SIZE(same); i++)
                check_round(same[i], same[i]);
        check_round("\"\\ud83d\\ude00 \\/\"", "\"😀 /\"");
        check_round(" [ 1 , 2 ] \n", "[1,2]");
        check_round("\"\\n\\u2028\"", "\"\\n\xe2\x80\xa8\"");
}

static void test_refusals(void)
{
        static const char *const bad[] = {
                "",
                " ",
                "{",
                "[1,]",
                "{\"a\":1,}",
                "// x\n1",
                "NaN",
                "Infinity",
                "01",
                "+1",
                "1.",
                "'a'",
                "\"\n\"",
                "\"\\x\"",
                "[1] 2",
                "\xff",
                "\"\xff\"",
                "\"\xed\xa0\x80\"",
                "\"\\ud800\"",
                "\"\\udc00\\ud800\"",
                "\xef\xbb\xbf[1]",
        };
        yyjson_doc *doc = NULL;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                err = (struct error){};
                if (json_parse(bad[i], strlen(bad[i]), &doc, &err) != -EBADMSG)
                        test_fail_("%s was not refused", bad[i]);
                check_has(err.text, "not JSON at byte");
        }
        check_eq_int(json_parse("1\0", 2, &doc, &err), -EBADMSG);
}

static void nest(char *text, size_t depth, const char *open, const char *close)
{
        *text = '\0';
        for (size_t i = 0; i < depth; i++)
                text = stpcpy(text, open);
        text = stpcpy(text, "1");
        for (size_t i = 0; i < depth; i++)
                text = stpcpy(text, close);
}

static void test_depth(void)
{
        static char text[8 * 1000 * 1000];
        yyjson_doc *doc = NULL;
        struct error err = {};

        nest(text, JSON_DEPTH_MAX, "[", "]");
        yyjson_doc_free(parsed(text));
        nest(text, JSON_DEPTH_MAX + 1, "[", "]");
        check_eq_int(json_parse(text, strlen(text), &doc, &err), -EBADMSG);
        nest(text, JSON_DEPTH_MAX - 1, "{\"a\":[],\"b\":", "}");
        check_eq_int(json_parse(text, strlen(text), &doc, &err), 0);
        yyjson_doc_free(doc);
        nest(text, JSON_DEPTH_MAX, "{\"a\":[],\"b\":", "}");
        check_eq_int(json_parse(text, strlen(text), &doc, &err), -EBADMSG);
        check_has(err.text, "nested deeper");
        nest(text, 1000000, "[", "]");
        check_eq_int(json_parse(text, strlen(text), &doc, &err), -EBADMSG);
        /* Many containers beside each other are not deep. */
        yyjson_doc_free(parsed("[[],[],{},{\"a\":{}},[[[]]]]"));
}

static void test_config(void)
{
        static const char good[] = "\xef\xbb\xbf{ // a comment\n \"a\": [1, 2,], /* more */\n}";
        static const char bad[] = "{\n  \"a\": 1,\n  b: 2\n}";
        yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse_config(good, strlen(good), &doc, &err));
        yyjson_doc_free(doc);
        check_eq_int(json_parse_config(bad, strlen(bad), &doc, &err), -EBADMSG);
        check(strncmp(err.text, "line 3, column 3: ", 18) == 0);
        check_eq_int(json_parse_config("", 0, &doc, &err), -EBADMSG);
}

static void test_doubles(void)
{
        static const struct {
                const char *text;
                bool fits;
        } cases[] = {
                {"9007199254740991", true},
                {"-9007199254740991", true},
                {"9007199254740992", false},
                {"-9007199254740992", false},
                {"{\"a\":[1,{\"b\":9007199254740993}],\"c\":2}", false},
                {"[[],{},\"9007199254740993\",0.1,1e300,-0.0,null]", true},
                {"[1e999]", false},
                {"-123456789012345678901234567890", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_json_ yyjson_doc *doc = parsed(cases[i].text);
                check(json_fits_doubles(yyjson_doc_get_root(doc)) == cases[i].fits);
        }
        /* The part alone, and not what follows it. */
        _cleanup_json_ yyjson_doc *doc = parsed("[[1,[2]],9007199254740993,3]");
        yyjson_val *root = yyjson_doc_get_root(doc);
        check(json_fits_doubles(yyjson_arr_get(root, 0)));
        check(!json_fits_doubles(yyjson_arr_get(root, 1)));
        check(json_fits_doubles(yyjson_arr_get(root, 2)));
}

static void test_numbers(void)
{
        _cleanup_json_ yyjson_doc *doc = parsed("[0,-9223372036854775808,9223372036854775807,"
                                                "9223372036854775808,1.5,1e3,\"1\",1e999]");
        yyjson_val *root = yyjson_doc_get_root(doc);
        int64_t n = 0;
        double d = 0;

        check_eq_int(json_int64(yyjson_arr_get(root, 0), &n), 0);
        check_eq_int(json_int64(yyjson_arr_get(root, 1), &n), 0);
        check(n == INT64_MIN);
        check_eq_int(json_int64(yyjson_arr_get(root, 2), &n), 0);
        check(n == INT64_MAX);
        check_eq_int(json_int64(yyjson_arr_get(root, 3), &n), -ERANGE);
        check_eq_int(json_int64(yyjson_arr_get(root, 4), &n), -EINVAL);
        check_eq_int(json_int64(yyjson_arr_get(root, 5), &n), -EINVAL);
        check_eq_int(json_int64(yyjson_arr_get(root, 6), &n), -EINVAL);
        check_eq_int(json_int64(NULL, &n), -EINVAL);
        check_eq_int(json_double(yyjson_arr_get(root, 4), &d), 0);
        check(d == 1.5);
        check_eq_int(json_double(yyjson_arr_get(root, 7), &d), -ERANGE);
        check_eq_int(json_double(NULL, &d), -EINVAL);
        check(json_is_number(yyjson_arr_get(root, 0)) && !json_is_number(yyjson_arr_get(root, 6)));
        check(!json_is_number(NULL));
}

static void test_strings(void)
{
        _cleanup_json_ yyjson_doc *doc = parsed("{\"a\":\"x\\u0000y\",\"b\":1}");
        yyjson_val *root = yyjson_doc_get_root(doc);
        size_t n = 0;

        check_eq_str(json_string(root, "a", &n), "x");
        check_eq_int(n, 3);
        check_eq_str(json_string(root, "b", &n), NULL);
        check_eq_str(json_string(root, "c", NULL), NULL);
        check_eq_str(json_string(NULL, "c", NULL), NULL);
}

static void test_bytes(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);

        check_eq_int(json_append_bytes(&b, "a\"\xff\xe2\x82\n\xe2\x82\xac", 9), 0);
        check_eq_bytes(buffer_bytes(&b), b.length, "\"a\\\"\\udcff\\udce2\\udc82\\n\xe2\x82\xac\"");
}

static void check_string(const char *text, size_t n, const char *expected)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);

        check_eq_int(json_append_string(&b, text, n), 0);
        check_eq_bytes(buffer_bytes(&b), b.length, expected);
        /* The output is JSON for any text. */
        yyjson_doc *doc = NULL;
        struct error err = {};
        check_ok(json_parse(buffer_bytes(&b), b.length, &doc, &err));
        yyjson_doc_free(doc);
}

static void test_append_string(void)
{
        check_string("", 0, "\"\"");
        check_string("a\"\\\n\0\x1f", 6, "\"a\\\"\\\\\\n\\u0000\\u001F\"");
        check_string("é€😀", strlen("é€😀"), "\"é€😀\"");
        check_string("\b\t\n\v\f\r /\x7f", 9, "\"\\b\\t\\n\\u000B\\f\\r /\x7f\"");
        check_string("é\n\xff€\"\xc3", strlen("é\n\xff€\"\xc3"),
                     "\"é\\n\xef\xbf\xbd€\\\"\xef\xbf\xbd\"");
        check_string("a\xff"
                     "b",
                     3,
                     "\"a\xef\xbf\xbd"
                     "b\"");
        check_string("\xc3", 1, "\"\xef\xbf\xbd\"");
        check_string("\xe2\x82", 2, "\"\xef\xbf\xbd\"");
        check_string("\xe2\x82z", 3, "\"\xef\xbf\xbdz\"");
        /* A surrogate, an overlong form, a value beyond Unicode. */
        check_string("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
        check_string("\xc0\x80", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
        check_string("\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void test_append_has_a_bound(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(5);
        _cleanup_json_ yyjson_doc *doc = parsed("[1,2,3]");

        check_eq_int(json_append(&b, yyjson_doc_get_root(doc)), -EMSGSIZE);
        check_eq_int(json_append_string(&b, "1234", 4), -EMSGSIZE);
        check_eq_int(json_append_string(&b, "12\n", 3), -EMSGSIZE);
        check_eq_int(b.length, 0);
        check_eq_int(json_append_string(&b, "123", 3), 0);
}

/* Values are counted before they are built; what is in strings does not count. */
static void test_values_bound(void)
{
        static const struct {
                const char *text;
                int at_most; /* the smallest bound that accepts it */
        } cases[] = {
                {"[1,2,3]", 4},          {"{\"a\":1,\"b\":[]}", 6}, {"\"a,b:[{\\\",,,\"", 1},
                {"[\"\\\\\",\",\"]", 3}, {"[[[[]]]]", 5},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct error err = {};
                yyjson_doc *doc = NULL;
                size_t n = strlen(cases[i].text);
                check_ok(
                        json_parse_bounded(cases[i].text, n, (size_t)cases[i].at_most, &doc, &err));
                yyjson_doc_free(doc);
                if (cases[i].at_most == 1)
                        continue;
                check_eq_int(json_parse_bounded(cases[i].text, n, (size_t)cases[i].at_most - 1,
                                                &doc, &err),
                             -EBADMSG);
                check_has(err.text, "JSON of more than");
        }
}

static int check_names(const char *text, const char *except)
{
        _cleanup_json_ yyjson_doc *doc = parsed(text);
        yyjson_val *root = yyjson_doc_get_root(doc);
        struct error err = {};

        return json_check_names(root, except ? yyjson_obj_get(root, except) : NULL, &err);
}

static void test_equal_names(void)
{
        _cleanup_buffer_ struct buffer many = BUFFER_INIT(1 << 20);
        static const char *const distinct[] = {"1", "[]", "{}",
                                               "{\"a\":1,\"A\":1,\"\":2,\"a\\u0000\":3}",
                                               "[{\"a\":1},{\"a\":{\"a\":[{\"a\":2}]}}]"},
                                 *const equal[] = {
                                         "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}",
                                         "{\"\":1,\"b\":2,\"\":3}",
                                         "[[{\"x\":{\"y\":[1,{\"é\":1,\"\\u00e9\":2}]}}]]"};

        for (size_t i = 0; i < ARRAY_SIZE(distinct); i++)
                check_eq_int(check_names(distinct[i], NULL), 0);
        for (size_t i = 0; i < ARRAY_SIZE(equal); i++)
                check_eq_int(check_names(equal[i], NULL), -ENOTUNIQ);
        check_eq_int(check_names("{\"a\":{\"b\":1,\"b\":2},\"c\":1}", "a"), 0);
        check_eq_int(check_names("{\"a\":{\"b\":1,\"b\":2},\"c\":1}", "c"), -ENOTUNIQ);
        check_eq_int(check_names("{\"a\":1,\"a\":1}", "a"), -ENOTUNIQ);
        /* Each number of members, also those above which they are sorted. */
        for (int n = 2; n < 40; n++) {
                many.length = 0;
                for (int i = 0; i < n; i++)
                        check_eq_int(buffer_printf(&many, "%c\"n%d\":%d", i ? ',' : '{', i, i), 0);
                check_eq_int(buffer_append_text(&many, "}"), 0);
                check_eq_int(buffer_append(&many, "", 1), 0);
                check_eq_int(check_names(buffer_bytes(&many), NULL), 0);
                many.length -= 2;
                check_eq_int(buffer_printf(&many, ",\"n%d\":0}", n / 2), 0);
                check_eq_int(buffer_append(&many, "", 1), 0);
                check_eq_int(check_names(buffer_bytes(&many), NULL), -ENOTUNIQ);
        }
}

int main(void)
{
        run(test_equal_names);
        run(test_bytes);
        run(test_values_are_unchanged);
        run(test_refusals);
        run(test_depth);
        run(test_config);
        run(test_doubles);
        run(test_numbers);
        run(test_strings);
        run(test_append_string);
        run(test_append_has_a_bound);
        run(test_values_bound);
        return 0;
}
