/* A server's list of tools: what is taken, what is left out, the bounds. */
#include "supervisor/hub/tools/tools.h"

#include "tests/unit/test.h"

static int add(struct hub_tools *tools, const char *list)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse(list, strlen(list), &doc, &err));
        return hub_tools_add(tools, yyjson_doc_get_root(doc));
}

static void check_text(const char *list, const char *expected)
{
        _cleanup_hub_tools_ struct hub_tools *tools = hub_tools_new();

        check(tools);
        check_eq_int(add(tools, list), 0);
        const struct buffer *text = hub_tools_text(tools);
        check_eq_bytes(buffer_bytes(text), text->length, expected);
}

static void test_members(void)
{
        check_text("[]", "");
        check_text("[{\"name\":\"a\"}]",
                   "{\"name\":\"a\",\"description\":\"\",\"inputSchema\":{\"type\":\"object\"}}");
        /* The title stands in for a missing description, and not for an empty one. */
        check_text("[{\"name\":\"a\",\"title\":\"A\",\"inputSchema\":{}}]",
                   "{\"name\":\"a\",\"description\":\"A\",\"inputSchema\":{}}");
        check_text("[{\"name\":\"a\",\"title\":\"A\",\"description\":\"\",\"inputSchema\":{}}]",
                   "{\"name\":\"a\",\"description\":\"\",\"inputSchema\":{}}");
        /* Schemas go through as they are, numbers as written; wrong types of what is optional are
         * dropped. */
        check_text(
                "[{\"inputSchema\":{\"$defs\":{\"x\":{\"if\":true}},\"max\":1.50},\"name\":\"a\","
                "\"outputSchema\":{\"type\":\"object\"},\"annotations\":7,\"_meta\":{}}]",
                "{\"name\":\"a\",\"description\":\"\",\"inputSchema\":{\"$defs\":{\"x\":{\"if\":"
                "true}},"
                "\"max\":1.50},\"outputSchema\":{\"type\":\"object\"}}");
}

static void test_names(void)
{
        _cleanup_hub_tools_ struct hub_tools *tools = hub_tools_new();
        const char *why = NULL;

        check(tools);
        check_eq_int(add(tools, "[{\"name\":\"b\"},{\"name\":\"a\"},{\"name\":\"b\"},{}]"), 0);
        check_eq_int(add(tools, "[{\"name\":\"c\"},{\"name\":\"a\"}]"), 0);
        check_eq_int(hub_tools_count(tools), 3);
        check_eq_int(hub_tools_left_out(tools, &why), 3);
        check_eq_str(why, "\"b\": another tool of this server has the same name");
        check(hub_tools_has(tools, "a") && hub_tools_has(tools, "b") && hub_tools_has(tools, "c"));
        check(!hub_tools_has(tools, "") && !hub_tools_has(tools, "d"));
}

static void test_what_is_no_list(void)
{
        _cleanup_hub_tools_ struct hub_tools *tools = hub_tools_new();

        check(tools);
        check_eq_int(hub_tools_add(tools, NULL), -EINVAL);
        check_eq_int(add(tools, "{}"), -EINVAL);
        check_eq_int(hub_tools_count(tools), 0);
        check(!hub_tools_has(tools, "a"));
}

static void test_equal(void)
{
        _cleanup_hub_tools_ struct hub_tools *a = hub_tools_new(), *b = hub_tools_new();

        check(a && b);
        check(hub_tools_equal(a, b));
        check_eq_int(add(a, "[{\"name\":\"a\"}]"), 0);
        check(!hub_tools_equal(a, b));
        check_eq_int(add(b, "[ {\"_meta\":1, \"name\":\"a\"} ]"), 0);
        check(hub_tools_equal(a, b));
}

/* Names come in order, which makes the worst case of a tree that is not balanced. */
static void test_number(void)
{
        _cleanup_hub_tools_ struct hub_tools *tools = hub_tools_new();
        char one[64];
        int r = 0, n = 0;

        check(tools);
        for (; r == 0; n++) {
                snprintf(one, sizeof(one), "[{\"name\":\"t%06d\"}]", n);
                r = add(tools, one);
        }
        check_eq_int(r, 1);
        check_eq_int(n, HUB_TOOLS_MAX + 1);
        check_eq_int(hub_tools_count(tools), HUB_TOOLS_MAX);
}

static void test_bytes(void)
{
        static char one[1024 * 1024];
        _cleanup_hub_tools_ struct hub_tools *tools = hub_tools_new();
        const char *why = NULL;
        int r = 0, n = 0;

        check(tools);
        for (; r == 0; n++) {
                int at = snprintf(one, sizeof(one), "[{\"name\":\"t%d\",\"description\":\"", n);
                memset(one + at, 'x', 1000 * 1000);
                strcpy(one + at + 1000 * 1000, "\"}]");
                r = add(tools, one);
        }
        check_eq_int(r, 1);
        check_eq_int(n, HUB_TOOLS_BYTES_MAX / 1000000 + 1);
        check_eq_int(hub_tools_left_out(tools, &why), 1);
        check_has(why, "5 MiB");
}

static void test_values(void)
{
        static char one[1024 * 1024];
        _cleanup_hub_tools_ struct hub_tools *tools = hub_tools_new();
        int r = 0, n = 0;

        check(tools);
        for (; r == 0; n++) {
                int at = snprintf(one, sizeof(one), "[{\"name\":\"t%d\",\"inputSchema\":{\"x\":[0",
                                  n);
                for (int i = 1; i < 50000; i++, at += 2)
                        memcpy(one + at, ",0", 3);
                strcpy(one + at, "]}}]");
                r = add(tools, one);
        }
        check_eq_int(r, 1);
        check_eq_int(n, 4);
        check_eq_int(hub_tools_count(tools), 3);
        check(hub_tools_values(tools) > 150000 && hub_tools_values(tools) < HUB_TOOLS_VALUES_MAX);
}

int main(void)
{
        run(test_members);
        run(test_names);
        run(test_what_is_no_list);
        run(test_equal);
        run(test_number);
        run(test_bytes);
        run(test_values);
        return 0;
}
