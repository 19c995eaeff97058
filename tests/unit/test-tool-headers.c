/* Which arguments of a tool become headers, and which schemas break the rules. */
#include "supervisor/hub/tools/tools.h"

#include "tests/unit/test.h"

static char seen[512];

static void add(void *to, const char *name, const char *value, size_t n)
{
        size_t at = strlen(seen);

        snprintf(seen + at, sizeof(seen) - at, "%s=%.*s;", name, (int)n, value);
}

static yyjson_doc *parse(const char *text)
{
        struct error err = {};
        yyjson_doc *doc = NULL;

        check_ok(json_parse(text, strlen(text), &doc, &err));
        return doc;
}

/* The tools of a server that has one, "t", with this schema. */
static struct hub_tools *take(const char *schema)
{
        struct hub_tools *tools = hub_tools_new();
        char list[512];

        snprintf(list, sizeof(list), "[{\"name\":\"t\",\"inputSchema\":%s}]", schema);
        _cleanup_json_ yyjson_doc *doc = parse(list);
        hub_tools_use_headers(tools);
        check_eq_int(hub_tools_add(tools, yyjson_doc_get_root(doc)), 0);
        return tools;
}

static void check_headers(const char *schema, const char *arguments, const char *expected)
{
        _cleanup_hub_tools_ struct hub_tools *tools = take(schema);
        _cleanup_json_ yyjson_doc *a = parse(arguments);

        check_eq_int(hub_tools_count(tools), 1);
        seen[0] = '\0';
        hub_tools_mirror(tools, "t", yyjson_doc_get_root(a), add, NULL);
        check_eq_str(seen, expected);
}

static void check_fault(const char *schema, const char *part)
{
        _cleanup_hub_tools_ struct hub_tools *tools = take(schema);
        const char *fault = NULL;

        check_eq_int(hub_tools_left_out(tools, &fault), 1);
        check_has(fault, part);
}

#define ONE(schema) "{\"properties\":{\"a\":" schema "}}"

static void test_values(void)
{
        check_headers(ONE("{\"type\":\"string\",\"x-mcp-header\":\"A\"}"), "{\"a\":\"x y\"}",
                      "Mcp-Param-A=x y;");
        check_headers(ONE("{\"type\":\"string\",\"x-mcp-header\":\"A\"}"), "{\"a\":null}", "");
        check_headers(ONE("{\"type\":\"string\",\"x-mcp-header\":\"A\"}"), "{}", "");
        check_headers(ONE("{\"type\":\"integer\",\"x-mcp-header\":\"A\"}"), "{\"a\":-7}",
                      "Mcp-Param-A=-7;");
        check_headers(ONE("{\"type\":[\"boolean\",\"null\"],\"x-mcp-header\":\"A\"}"),
                      "{\"a\":false}", "Mcp-Param-A=false;");
        check_headers(
                "{\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{\"a/~b\":{\"type\":\"string\",\"x-mcp-header\":\"B\"}}}}}",
                "{\"o\":{\"a/~b\":\"v\"}}", "Mcp-Param-B=v;");
        /* A property of that name, and values, are not annotations. */
        check_headers(
                ONE("{\"default\":{\"x-mcp-header\":1},\"properties\":{\"x-mcp-header\":{\"type\":\"string\"}}}"),
                "{}", "");
}

static void test_faults(void)
{
        check_fault(ONE("{\"type\":\"number\",\"x-mcp-header\":\"A\"}"),
                    "string, integer or boolean");
        check_fault(ONE("{\"x-mcp-header\":\"A\"}"), "string, integer or boolean");
        check_fault(ONE("{\"type\":\"string\",\"x-mcp-header\":\"\"}"), "header's name");
        check_fault(ONE("{\"type\":\"string\",\"x-mcp-header\":\"A B\"}"), "header's name");
        check_fault(ONE("{\"type\":\"string\",\"x-mcp-header\":\"A\\r\\nB: c\"}"), "header's name");
        check_fault(ONE("{\"type\":\"string\",\"x-mcp-header\":5}"), "header's name");
        check_fault("{\"x-mcp-header\":\"A\",\"type\":\"string\"}", "always there");
        check_fault(ONE("{\"items\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}"),
                    "always there");
        check_fault(
                "{\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}]}",
                "always there");
        check_fault("{\"$defs\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}}",
                    "always there");
        check_fault(
                "{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"N\"},\"b\":{\"type\":\"string\",\"x-mcp-header\":\"n\"}}}",
                "same name");
}

int main(void)
{
        run(test_values);
        run(test_faults);
        return 0;
}
