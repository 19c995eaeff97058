/* JSON-RPC: the kinds of messages, refusals, and output. */
#include "rpc/jsonrpc.h"
#include "tests/unit/test.h"

static int parse(const char *text, struct jsonrpc_message *m, struct error *err)
{
        *err = (struct error){};
        return jsonrpc_parse(text, strlen(text), m, err);
}

static void check_kind(const char *text, enum jsonrpc_kind kind)
{
        struct jsonrpc_message m;
        struct error err;

        check_ok(parse(text, &m, &err));
        check_eq_int(m.kind, kind);
        jsonrpc_done(&m);
}

static void check_refused(const char *text, int code, const char *why)
{
        struct jsonrpc_message m;
        struct error err;

        check_eq_int(parse(text, &m, &err), code);
        check_eq_int(m.kind, JSONRPC_INVALID);
        check_has(err.text, why);
        jsonrpc_done(&m);
}

static void test_kinds(void)
{
        check_kind("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", JSONRPC_REQUEST);
        check_kind("{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"ping\",\"params\":{}}",
                   JSONRPC_REQUEST);
        check_kind("{\"jsonrpc\":\"2.0\",\"id\":-15,\"method\":\"\",\"params\":[]}",
                   JSONRPC_REQUEST);
        check_kind("{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"more\":1}", JSONRPC_NOTIFICATION);
        check_kind("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", JSONRPC_RESPONSE);
        check_kind("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":null}", JSONRPC_RESPONSE);
        check_kind("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"\"}}",
                   JSONRPC_ERROR);
        check_kind("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1}}", JSONRPC_ERROR);
        check_kind("{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-1}}", JSONRPC_ERROR);
        check_kind(" [1] ", JSONRPC_BATCH);
}

static void check_text(const char *line, const char *wanted)
{
        struct jsonrpc_message m;
        struct error err;

        check_ok(parse(line, &m, &err));
        check_eq_int(m.kind, JSONRPC_RESPONSE);
        if (!wanted) {
                check(!m.text);
        } else {
                check(m.text);
                check_eq_bytes(m.text, m.text_length, wanted);
        }
        jsonrpc_done(&m);
}

/* The text of a result is passed on unchanged, at any position in the message. */
static void test_text_of_result(void)
{
        check_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", "{}");
        check_text(" {\"result\" : {\"a\": [1.50, 1E400] } , \"jsonrpc\":\"2.0\",\"id\":1 } ",
                   "{\"a\": [1.50, 1E400] }");
        check_text("{\"id\":\"a\\\"b\",\"result\":{\"x\":\"}\\u0041\\n,\"},\"jsonrpc\":\"2.0\"}",
                   "{\"x\":\"}\\u0041\\n,\"}");
        check_text("{\"jsonrpc\":\"2.0\",\"i\\u0064\":1,\"\\u00e9\":\"\\u00e9\",\"result\":{\"a\":{"
                   "}}\t}\r",
                   "{\"a\":{}}");
        /* Only code reads structuredContent. */
        check_text(
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"structuredContent\":{\"a\":1,\"a\":2}}}",
                "{\"structuredContent\":{\"a\":1,\"a\":2}}");
        check_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":null}", "{}");
        /* Written in another way, or not an object: the value is serialized again. */
        check_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"r\\u0065sult\":{}}", NULL);
        check_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{}]}", NULL);
        check_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{}\"}", NULL);
        check_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", NULL);
}

static void test_refusals(void)
{
        check_refused("", -EBADMSG, "not JSON");
        check_refused("{", -EBADMSG, "not JSON");
        check_refused("{} x", -EBADMSG, "not JSON");
        check_refused("{\"a\":NaN}", -EBADMSG, "not JSON");
        check_refused("\"\\ud800\"", -EBADMSG, "not JSON");
        check_refused("\"\xff\"", -EBADMSG, "not JSON");
        check_refused("7", -EINVAL, "not an object");
        check_refused("null", -EINVAL, "not an object");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":1},\"result\":{\"n\":2}}",
                      -ENOTUNIQ, "two members of an object are named \"result\"");
        check_refused(
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":1,\"\\u0061\":2}}",
                -ENOTUNIQ, "named \"a\"");
        /* In a request it is an argument like any other. */
        check_refused(
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"result\":{\"structuredContent\":{\"a\":1,\"a\":2}}}",
                -ENOTUNIQ, "named \"a\"");
        check_refused("[]", -EINVAL, "an empty batch");
        check_refused("{}", -EINVAL, "jsonrpc is not \"2.0\"");
        check_refused("{\"jsonrpc\":2.0,\"id\":1,\"method\":\"x\"}", -EINVAL, "jsonrpc is not");
        check_refused("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"x\"}", -EINVAL, "jsonrpc is not");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1}", -EINVAL, "neither a method");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", -EINVAL,
                      "method is not a string");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}", -EINVAL,
                      "the id is neither");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}", -EINVAL,
                      "the id is neither");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"x\"}", -EINVAL,
                      "the id is neither");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"x\"}", -EINVAL,
                      "the id is neither a string nor an integer");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1e3,\"result\":{}}", -EINVAL,
                      "without a usable id");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":7}", -EINVAL,
                      "params are");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":null}", -EINVAL,
                      "params are");
        check_refused("{\"jsonrpc\":\"2.0\",\"result\":{}}", -EINVAL, "without a usable id");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{\"code\":1}}", -EINVAL,
                      "both");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":7}", -EINVAL,
                      "error is not an object");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", -EINVAL, "error's code");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1.5}}", -EINVAL,
                      "error's code");
        check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":99999999999999999999}}",
                      -EINVAL, "error's code");
}

static void test_depth(void)
{
        char text[1000];

        memset(text, '[', 129);
        memset(text + 129, ']', 129);
        text[258] = '\0';
        check_refused(text, -EBADMSG, "nested deeper than 128");
}

/* A malformed message may still contain the id of its request. */
static void test_id_of_a_refused_message(void)
{
        struct jsonrpc_message m;
        struct error err;

        check_eq_int(parse("{\"id\":5,\"method\":\"x\"}", &m, &err), -EINVAL);
        check(jsonrpc_id_is(m.id, 5));
        jsonrpc_done(&m);
        check_eq_int(parse("{\"jsonrpc\":\"2.0\",\"id\":[5],\"method\":\"x\"}", &m, &err), -EINVAL);
        check(!m.id);
        jsonrpc_done(&m);
        check_eq_int(parse("nonsense", &m, &err), -EBADMSG);
        check(!m.id && !m.doc);
        jsonrpc_done(&m);
}

/* The guess, or -1. */
static long long guess(const char *line)
{
        int64_t id = -1;

        return jsonrpc_guess_id(line, strlen(line), &id) ? id : -1;
}

static void test_guess(void)
{
        check_eq_int(guess("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":NaN}"), 7);
        check_eq_int(guess("{\"result\":{\"id\":1,\"a\":[{\"id\":2}]}, \"id\" : 71"), 71);
        check_eq_int(guess("{\"result\":\"\\\"id\\\":5 }}}\",\"id\":6}"), 6);
        check_eq_int(guess("{\"id\":123456789012345678901234567890}"), 123456789012345678);
        check_eq_int(guess("{\"id\":1,\"method\":\"x\",\"params\":NaN}"), -1);
        check_eq_int(guess("{\"id\":\"1\"}"), -1);
        check_eq_int(guess("{\"id\":}"), -1);
        check_eq_int(guess("{\"id\""), -1);
        check_eq_int(guess("{\"id\":"), -1);
        check_eq_int(guess("{\"id\\"), -1);
        check_eq_int(guess("}}}}\"id\":1"), -1);
        check_eq_int(guess(""), -1);
}

static void test_members(void)
{
        struct jsonrpc_message m;
        struct error err;

        check_ok(parse("{\"jsonrpc\":\"2.0\",\"id\":12345678901234567890,\"method\":\"a\\u0000b\","
                       "\"params\":[1.50]}",
                       &m, &err));
        check_eq_int(m.method_length, 3);
        check_eq_int(yyjson_arr_size(m.params), 1);
        check(!jsonrpc_id_is(m.id, 1));
        jsonrpc_done(&m);
        check_ok(parse(
                "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"error\":{\"code\":-32601,\"message\":\"no\","
                "\"data\":null}}",
                &m, &err));
        check_eq_int(m.error_code, -32601);
        check_eq_str(m.error_message, "no");
        check(m.error_data && !jsonrpc_id_is(m.id, 1));
        jsonrpc_done(&m);
}

static void test_batch(void)
{
        struct buffer many = BUFFER_INIT(1024 * 1024);
        struct jsonrpc_message m, element;
        struct error err;

        check_ok(parse("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"},7,[1]]", &m, &err));
        check_eq_int(m.kind, JSONRPC_BATCH);
        check_ok(jsonrpc_classify(yyjson_arr_get(m.batch, 0), &element, &err));
        check_eq_int(element.kind, JSONRPC_REQUEST);
        check(!element.doc);
        check_eq_int(jsonrpc_classify(yyjson_arr_get(m.batch, 1), &element, &err), -EINVAL);
        check_eq_int(jsonrpc_classify(yyjson_arr_get(m.batch, 2), &element, &err), -EINVAL);
        jsonrpc_done(&m);

        check_eq_int(buffer_printf(&many, "[0"), 0);
        for (int i = 1; i < JSONRPC_BATCH_MAX; i++)
                check_eq_int(buffer_append(&many, ",0", 2), 0);
        check_eq_int(buffer_printf(&many, "]"), 0);
        check_eq_int(jsonrpc_parse(buffer_bytes(&many), many.length, &m, &err), 0);
        jsonrpc_done(&m);
        many.length--;
        check_eq_int(buffer_printf(&many, ",0]"), 0);
        check_eq_int(jsonrpc_parse(buffer_bytes(&many), many.length, &m, &err), -EINVAL);
        check_has(err.text, "at most 1000");
        jsonrpc_done(&m);
        buffer_done(&many);
}

static void test_written(void)
{
        struct buffer b = BUFFER_INIT(4096);
        struct jsonrpc_message m;
        struct error err;

        check_eq_int(jsonrpc_append_request(&b, 7, "tools/list", "{}", 2), 0);
        check_eq_int(jsonrpc_append_request(&b, -7, "a\"\n", NULL, 0), 0);
        check_eq_int(jsonrpc_append_notification(&b, "x", "[1]", 3), 0);
        check_ok(parse("{\"jsonrpc\":\"2.0\",\"id\":-150,\"method\":\"x\"}", &m, &err));
        check_eq_int(jsonrpc_append_result(&b, m.id, "{}", 2), 0);
        jsonrpc_done(&m);
        check_ok(parse("{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"method\":\"x\"}", &m, &err));
        check_eq_int(jsonrpc_append_error(&b, m.id, -32601, "no \"x\"", "[2]", 3), 0);
        jsonrpc_done(&m);
        check_eq_int(jsonrpc_append_error(&b, NULL, -32700, "bad", NULL, 0), 0);
        check_eq_bytes(
                buffer_bytes(&b), b.length,
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\",\"params\":{}}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":-7,\"method\":\"a\\\"\\n\"}\n"
                "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[1]}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":-150,\"result\":{}}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"error\":{\"code\":-32601,\"message\":"
                "\"no \\\"x\\\"\",\"data\":[2]}}\n"
                "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"bad\"}}\n");
        buffer_done(&b);
}

/* For every bound, a message is written completely or not at all. */
static void test_whole_or_nothing(void)
{
        static const char result[] = "{\"jsonrpc\":\"2.0\",\"result\":{\"a\":1}}\n";
        bool fitted = false;

        for (size_t limit = 1; limit < 100; limit++) {
                struct buffer b = BUFFER_INIT(limit);
                int r = jsonrpc_append_result(&b, NULL, "{\"a\":1}", 7);
                check(r == 0 || r == -EMSGSIZE);
                check(!fitted || r == 0);
                check_eq_bytes(buffer_bytes(&b), b.length, r == 0 ? result : "");
                fitted = r == 0;
                buffer_done(&b);
        }
        check(fitted);
}

static void test_ids(void)
{
        static const char *const ids[] = {
                "5", "\"5\"", "50", "\"\\u0000a\"", "\"\"", "123456789012345678901234567890"};
        yyjson_doc *docs[ARRAY_SIZE(ids)], *copy = NULL;
        struct error err = {};

        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
                check_ok(json_parse(ids[i], strlen(ids[i]), &docs[i], &err));
                check_eq_int(jsonrpc_id_copy(yyjson_doc_get_root(docs[i]), strlen(ids[i]), &copy),
                             0);
                for (size_t k = 0; k <= i; k++)
                        check_eq_int(jsonrpc_id_equals(yyjson_doc_get_root(docs[k]),
                                                       yyjson_doc_get_root(copy)),
                                     i == k);
                check(!jsonrpc_id_equals(NULL, yyjson_doc_get_root(copy)));
                yyjson_doc_free(copy);
                check_eq_int(
                        jsonrpc_id_copy(yyjson_doc_get_root(docs[i]), strlen(ids[i]) - 1, &copy),
                        -EMSGSIZE);
        }
        check(!jsonrpc_id_equals(NULL, NULL));
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
                yyjson_doc_free(docs[i]);
}

int main(void)
{
        run(test_kinds);
        run(test_text_of_result);
        run(test_refusals);
        run(test_depth);
        run(test_id_of_a_refused_message);
        run(test_guess);
        run(test_members);
        run(test_batch);
        run(test_written);
        run(test_whole_or_nothing);
        run(test_ids);
        return 0;
}
