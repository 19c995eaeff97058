/* JSON written from front to back. */
#include "base/json-out.h"

#include <errno.h>

#include "base/json.h"
#include "tests/unit/test.h"

static void write_all(struct json_out *out)
{
        json_out_begin(out, NULL, '{');
        json_out_string(out, "a", "x\0\"y", 4);
        json_out_begin(out, "list", '[');
        json_out_int(out, NULL, INT64_MIN);
        json_out_begin(out, NULL, '{');
        json_out_end(out, '}');
        json_out_begin(out, NULL, '[');
        json_out_end(out, ']');
        json_out_text(out, NULL, "");
        json_out_raw(out, NULL, "1.50", 4);
        json_out_end(out, ']');
        json_out_bool(out, "yes", true);
        json_out_bool(out, "no", false);
        json_out_end(out, '}');
}

static const char all[] =
        "{\"a\":\"x\\u0000\\\"y\",\"list\":[-9223372036854775808,{},[],\"\",1.50],"
        "\"yes\":true,\"no\":false}";

static void test_members_and_commas(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct json_out out = {.to = &b};
        struct error err = {};

        write_all(&out);
        check_eq_int(out.error, 0);
        check_eq_bytes(buffer_bytes(&b), b.length, all);
        check_ok(json_parse(buffer_bytes(&b), b.length, &doc, &err));
}

/* For every bound: the first error is kept, and the written text is a prefix. */
static void test_every_bound(void)
{
        for (size_t most = 1; most < sizeof(all); most++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(most);
                struct json_out out = {.to = &b};

                write_all(&out);
                check_eq_int(out.error, most < sizeof(all) - 1 ? -EMSGSIZE : 0);
                check(memcmp(buffer_bytes(&b), all, b.length) == 0);
        }
}

static void write_indented(struct json_out *out, yyjson_val *value)
{
        json_out_begin(out, NULL, '{');
        json_out_key(out, "a\"b", 3);
        json_out_begin(out, NULL, '[');
        json_out_int(out, NULL, 1);
        json_out_begin(out, NULL, '{');
        json_out_end(out, '}');
        json_out_end(out, ']');
        json_out_raw(out, "raw", "{ \"x\":[],\"y\" : [1,{\"z\":\"}\\\",\"}]}", 32);
        json_out_value(out, "value", value);
        json_out_key(out, "last", 4);
        json_out_bool(out, NULL, true);
        json_out_end(out, '}');
}

static void test_indented(void)
{
        static const char wanted[] = "{\n  \"a\\\"b\": [\n    1,\n    {}\n  ],\n  \"raw\": {\n"
                                     "    \"x\": [],\n    \"y\": [\n      1,\n      {\n"
                                     "        \"z\": \"}\\\",\"\n      }\n    ]\n  },\n"
                                     "  \"value\": {\n    \"n\": 1.50\n  },\n  \"last\": true\n}";
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse("{\"n\":1.50}", 10, &doc, &err));
        for (size_t most = 1; most <= sizeof(wanted); most++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(most);
                struct json_out out = {.to = &b, .indent = true};

                write_indented(&out, yyjson_doc_get_root(doc));
                check_eq_int(out.error, most < sizeof(wanted) - 1 ? -EMSGSIZE : 0);
                if (out.error == 0)
                        check_eq_bytes(buffer_bytes(&b), b.length, wanted);
                else
                        check(memcmp(buffer_bytes(&b), wanted, b.length) == 0);
        }
}

/* Without indent a key of any text and a parsed value stand on one line. */
static void test_keys_and_values(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
        struct json_out out = {.to = &b};
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse("[1.50]", 6, &doc, &err));
        json_out_begin(&out, NULL, '{');
        json_out_key(&out, "\n", 1);
        json_out_value(&out, NULL, yyjson_doc_get_root(doc));
        json_out_value(&out, "b", yyjson_doc_get_root(doc));
        json_out_base64(&out, "c", "\0a", 2);
        json_out_end(&out, '}');
        check_eq_bytes(buffer_bytes(&b), b.length, "{\"\\n\":[1.50],\"b\":[1.50],\"c\":\"AGE=\"}");
}

static void test_the_first_error_is_kept(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
        struct json_out out = {.to = &b};

        json_out_begin(&out, NULL, '[');
        json_out_fail(&out, -ENOMEM);
        json_out_fail(&out, -EMSGSIZE);
        json_out_text(&out, NULL, "never");
        json_out_end(&out, ']');
        check_eq_int(out.error, -ENOMEM);
        check_eq_bytes(buffer_bytes(&b), b.length, "[");
}

int main(void)
{
        run(test_members_and_commas);
        run(test_every_bound);
        run(test_indented);
        run(test_keys_and_values);
        run(test_the_first_error_is_kept);
        return 0;
}
