#include "policy/schema-check.h"

#include "base/json.h"
#include "tests/unit/test.h"

static struct error err;

static const char *check_both(const char *arguments, const char *schema)
{
        _cleanup_json_ yyjson_doc *a = NULL, *s = NULL;

        err = (struct error){};
        check_ok(json_parse(arguments, strlen(arguments), &a, &err));
        check_ok(json_parse(schema, strlen(schema), &s, &err));
        int r = schema_check_arguments(yyjson_doc_get_root(a), yyjson_doc_get_root(s), &err);
        check_eq_int(r, error_is_set(&err) ? -EINVAL : 0);
        return err.text;
}

static const struct {
        const char *schema, *good, *bad, *why;
} cases[] = {
        {"{\"required\":[\"a\"]}", "{\"a\":null}", "{\"b\":1}", "argument \"a\" is missing"},
        {"{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"a\":[1]}", "{\"b\":1}",
         "argument \"b\" is unknown"},
        {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":\"\"}", "{\"a\":1}",
         "argument \"a\" must be string, not integer"},
        {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":null}", "{\"a\":[]}",
         "argument \"a\" must be string, not array"},
        {"{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":\"x\"}",
         "{\"a\":null}", "argument \"a\" must be string, not null"},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{\"a\":2.0}", "{\"a\":2.5}",
         "argument \"a\" must be integer, not number"},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"}}}",
         "{\"a\":123456789012345678901234567890}", "{\"a\":true}",
         "argument \"a\" must be integer, not boolean"},
        {"{\"properties\":{\"a\":{\"type\":[\"array\",\"null\"]}}}", "{\"a\":[]}", "{\"a\":{}}",
         "argument \"a\" must be of another type, not object"},
        {"{\"properties\":{\"a\":{\"type\":\"tuple\"}}}", "{\"a\":1}", NULL, NULL},
        {"{\"properties\":{\"a\":{\"enum\":[\"x\",\"y\",1]}}}", "{\"a\":1.0}", "{\"a\":\"z\"}",
         "argument \"a\" must be one of \"x\", \"y\""},
        {"{\"properties\":{\"a\":{\"const\":5}}}", "{\"a\":5.0}", "{\"a\":\"5\"}",
         "argument \"a\" must have another value"},
        {"{\"properties\":{\"a\":{\"minimum\":1,\"maximum\":2}}}", "{\"a\":2}", "{\"a\":2.01}",
         "argument \"a\" must be at most 2"},
        {"{\"properties\":{\"a\":{\"minimum\":1,\"maximum\":2}}}", "{\"a\":1}", "{\"a\":-1}",
         "argument \"a\" must be at least 1"},
        {"{\"properties\":{\"a\":{\"minLength\":1,\"maxLength\":2}}}", "{\"a\":\"éé\"}",
         "{\"a\":\"ééé\"}", "argument \"a\" must be at most 2 characters long"},
        {"{\"properties\":{\"a\":{\"minItems\":1}}}", "{\"a\":[1]}", "{\"a\":[]}",
         "argument \"a\" must be at least 1 items long"},
        {"{\"properties\":{\"a\":{\"items\":{\"type\":\"string\"}}}}", "{\"a\":[\"x\"]}",
         "{\"a\":[\"x\",2]}", "argument \"a[1]\" must be string, not integer"},
        {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"items\":{\"required\":[\"c\"]}}}}}}",
         "{\"a\":{\"b\":[{\"c\":1}]}}", "{\"a\":{\"b\":[{}]}}", "argument \"a.b[0].c\" is missing"},
        {"{\"properties\":{\"a\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}}}",
         "{\"a\":\"x\"}", "{\"a\":1}", "argument \"a\" fits none of its types"},
        {"{\"type\":\"object\"}", "{}", "[]", "the arguments must be object, not array"},
        {"{\"properties\":{\"a\":{\"pattern\":\"(\"}}}", "{\"a\":\"x\"}", NULL, NULL},
};

static void test_each_word(void)
{
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                check_eq_str(check_both(cases[i].good, cases[i].schema), "");
                if (cases[i].bad)
                        check_eq_str(check_both(cases[i].bad, cases[i].schema), cases[i].why);
        }
}

/* A schema and arguments that are nested without end have a bound, beyond which all pass. */
static void test_bounds(void)
{
        char schema[4096] = "{}", arguments[512] = "1", next[4096];
        for (int i = 0; i < 40; i++) {
                snprintf(next, sizeof(next), "{\"items\":%s}", schema);
                memcpy(schema, next, sizeof(schema));
                snprintf(next, sizeof(next), "[%s]", arguments);
                memcpy(arguments, next, sizeof(arguments));
        }
        check_eq_str(check_both(arguments, schema), "");
        check_eq_str(check_both("{\"a\\nb\":1}", "{\"additionalProperties\":false}"),
                     "argument \"a\nb\" is unknown");
}

int main(void)
{
        run(test_each_word);
        run(test_bounds);
        return 0;
}
