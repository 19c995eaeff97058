
#include "base/json.h"
#include "policy/config/reader.h"
#include "tests/unit/test.h"

static size_t line_of(const char *text, const char *pointer)
{
        struct error err = {};
        struct config_lines lines;
        _cleanup_json_ yyjson_doc *doc = NULL;

        check_ok(json_parse_config(text, strlen(text), &doc, &err));
        config_lines_init(&lines, text, strlen(text), yyjson_doc_get_root(doc));
        return config_line_of(&lines, yyjson_doc_ptr_get(doc, pointer));
}

static void test_values(void)
{
        static const char text[] = "{\n\"a\":\n1, \"b\": [\n-2.5e3,true\n,null,\n\"x\"\n],\n"
                                   "\"c\": {\"d\":\n{}}, \"e\": [[],\n[]]}";

        check_eq_int(line_of(text, ""), 1);
        check_eq_int(line_of(text, "/a"), 3);
        check_eq_int(line_of(text, "/b"), 3);
        check_eq_int(line_of(text, "/b/0"), 4);
        check_eq_int(line_of(text, "/b/1"), 4);
        check_eq_int(line_of(text, "/b/2"), 5);
        check_eq_int(line_of(text, "/b/3"), 6);
        check_eq_int(line_of(text, "/c/d"), 9);
        check_eq_int(line_of(text, "/e/1"), 10);
}

static void test_not_a_value(void)
{
        check_eq_int(line_of("\xef\xbb\xbf\n{\"a\": 1}", "/a"), 2);
        check_eq_int(line_of("// {\"a\": 5,\n/* [ \n \" */ {/**/\"a\"//\n:/***/1/*\n*/}", "/a"), 4);
        check_eq_int(line_of("{\"\\\"{\\\\\": \"//\", \"b\": \"/*\",\n\"c\\n\\u000a\": 1//x\n,}\n",
                             "/c\n\n"),
                     2);
        check_eq_int(line_of("[1//\n,2/**/,3\n]", "/2"), 2);
        check_eq_int(line_of("\r\n[\r\n1]", "/0"), 3);
}

static void test_strangers(void)
{
        static const char text[] = "[1]";
        struct error err = {};
        struct config_lines lines;
        _cleanup_json_ yyjson_doc *doc = NULL;

        check_ok(json_parse_config(text, strlen(text), &doc, &err));
        yyjson_val *root = yyjson_doc_get_root(doc);
        config_lines_init(&lines, text, strlen(text), root);
        check_eq_int(config_line_of(&lines, root + 100), 0);
        check_eq_int(config_line_of(&lines, root + 1), 1); /* looked for again from the front */
        check_eq_int(config_line_of(&lines, NULL), 0);
        config_lines_init(&lines, text, strlen(text), NULL);
        check_eq_int(config_line_of(&lines, root), 0);
}

int main(void)
{
        run(test_values);
        run(test_not_a_value);
        run(test_strangers);
        return 0;
}
