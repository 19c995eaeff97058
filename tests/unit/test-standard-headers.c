/* The headers of a modern request against its body. */
#include "supervisor/http/standard-headers.h"

#include "base/cleanup.h"
#include "tests/unit/test.h"

#define META    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"
#define VERSION "MCP-Protocol-Version: 2026-07-28\r\n"
#define BODY(method, params)                                                                       \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" META params "}}"
#define CALL(arguments) BODY("tools/call", ",\"name\":\"run_python\",\"arguments\":" arguments)
#define CALL_HEADERS    VERSION "Mcp-Method: tools/call\r\nMcp-Name: run_python\r\n"

enum { BODY_MAX = 4096 };

static void read_head(struct http_reader *reader, const char *headers)
{
        char text[2048];
        struct error err = {};

        http_reader_init(reader, BODY_MAX);
        int n = snprintf(text, sizeof(text), "POST /mcp HTTP/1.1\r\nHost: a\r\n%s\r\n", headers);
        check_eq_int(http_reader_feed(reader, text, (size_t)n, &err), n);
        check_eq_int(reader->state, HTTP_READER_HEADERS);
}

/* why: NULL if they fit. */
static void check_headers(const char *headers, const char *body, const char *why)
{
        _cleanup_jsonrpc_ struct jsonrpc_message message;
        struct http_reader reader;
        struct error err = {};

        check_ok(jsonrpc_parse(body, strlen(body), &message, &err));
        read_head(&reader, headers);
        int r = standard_headers_check(&reader, &message, &err);
        if (!why && r < 0)
                test_fail_("%s: %s", headers, err.text);
        if (why) {
                check_eq_int(r, -EBADMSG);
                check_has(err.text, why);
        }
        http_reader_done(&reader);
}

static void test_version(void)
{
        const char *body = BODY("tools/list", "");

        check_headers(VERSION "Mcp-Method: tools/list\r\n", body, NULL);
        check_headers("Mcp-Method: tools/list\r\n", body, "mcp-protocol-version is missing");
        check_headers("MCP-Protocol-Version: 2025-11-25\r\nMcp-Method: tools/list\r\n", body,
                      "mcp-protocol-version is not");
        check_headers("MCP-Protocol-Version: 2026-07-28x\r\nMcp-Method: tools/list\r\n", body,
                      "mcp-protocol-version is not");
        check_headers("MCP-Protocol-Version:\r\nMcp-Method: tools/list\r\n", body,
                      "mcp-protocol-version is not");
        check_headers("mcp-PROTOCOL-version:   2026-07-28  \r\nMcp-Method: tools/list\r\n", body,
                      NULL);
}

static void test_method(void)
{
        const char *body = BODY("tools/list", "");

        check_headers(VERSION, body, "mcp-method is missing");
        check_headers(VERSION "Mcp-Method: tools/call\r\n", body, "mcp-method is not");
        check_headers(VERSION "Mcp-Method: Tools/list\r\n", body, "mcp-method is not");
        check_headers(VERSION "Mcp-Method: tools/list, tools/call\r\n", body, "mcp-method is not");
        check_headers(VERSION "Mcp-Method: =?base64?dG9vbHMvbGlzdA==?=\r\n", body, NULL);
}

static void test_name(void)
{
        const char *body = CALL("{}");

        check_headers(CALL_HEADERS, body, NULL);
        check_headers(VERSION "Mcp-Method: tools/call\r\n", body, "mcp-name is missing");
        check_headers(VERSION "Mcp-Method: tools/call\r\nMcp-Name: other\r\n", body,
                      "mcp-name is not");
        check_headers(VERSION "Mcp-Method: tools/call\r\nMcp-Name: =?base64?cnVuX3B5dGhvbg==?=\r\n",
                      body, NULL);
        /* Bytes that a header cannot have. */
        const char *read = BODY("resources/read", ",\"uri\":\"a:\xc3\xa9\"");
        check_headers(VERSION "Mcp-Method: resources/read\r\nMcp-Name: =?base64?YTrDqQ==?=\r\n",
                      read, NULL);
        check_headers(VERSION "Mcp-Method: resources/read\r\nMcp-Name: a:\xc3\xa9\r\n", read,
                      "mcp-name cannot be decoded");
        check_headers(VERSION "Mcp-Method: resources/read\r\n", read, "mcp-name is missing");
        /* A name that is not a string is an error of the parameter. */
        check_headers(VERSION "Mcp-Method: tools/call\r\n", BODY("tools/call", ",\"name\":5"),
                      NULL);
        /* Other methods have none. */
        check_headers(VERSION "Mcp-Method: tools/list\r\n", BODY("tools/list", ",\"name\":\"x\""),
                      NULL);
}

static void test_session(void)
{
        const char *body = CALL("{\"code\":\"1\",\"session\":\"work\"}");

        check_headers(CALL_HEADERS "Mcp-Param-Session: work\r\n", body, NULL);
        check_headers(CALL_HEADERS "Mcp-Param-Session: =?base64?d29yaw==?=\r\n", body, NULL);
        check_headers(CALL_HEADERS, body, "mcp-param-session is missing");
        check_headers(CALL_HEADERS "Mcp-Param-Session: other\r\n", body,
                      "mcp-param-session is not");
        check_headers(CALL_HEADERS "Mcp-Param-Session:\r\n", body, "mcp-param-session is not");
        /* None in the body. */
        check_headers(CALL_HEADERS, CALL("{\"code\":\"1\"}"), NULL);
        check_headers(CALL_HEADERS, CALL("{\"code\":\"1\",\"session\":null}"), NULL);
        check_headers(CALL_HEADERS "Mcp-Param-Session: work\r\n", CALL("{\"code\":\"1\"}"),
                      "mcp-param-session is not");
        check_headers(CALL_HEADERS "Mcp-Param-Session: work\r\n",
                      CALL("{\"code\":\"1\",\"session\":null}"), "mcp-param-session is not");
}

static void test_base64(void)
{
        static const char *const wrong[] = {
                "=?base64?!!!?=",   "=?base64?YQ?=",     "=?base64?YQ=?=",
                "=?base64? YQ==?=", "=?base64?YQ==\t?=", "=?base64?_-8=?=",
        };
        char headers[256];

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                snprintf(headers, sizeof(headers), CALL_HEADERS "Mcp-Param-Session: %s\r\n",
                         wrong[i]);
                check_headers(headers, CALL("{\"session\":\"a\"}"), "cannot be decoded");
        }
        check_headers(CALL_HEADERS "Mcp-Param-Session: =?base64?YQ==?=\r\n",
                      CALL("{\"session\":\"a\"}"), NULL);
        /* Not the form: the value is as it is written. */
        check_headers(CALL_HEADERS "Mcp-Param-Session: =?BASE64?YQ==?=\r\n",
                      CALL("{\"session\":\"=?BASE64?YQ==?=\"}"), NULL);
        check_headers(CALL_HEADERS "Mcp-Param-Session: =?base64?YQ==\r\n",
                      CALL("{\"session\":\"=?base64?YQ==\"}"), NULL);
        /* A NUL byte ends no comparison. */
        check_headers(CALL_HEADERS "Mcp-Param-Session: =?base64?YQBi?=\r\n",
                      CALL("{\"session\":\"a\"}"), "is not the value");
        check_headers(CALL_HEADERS "Mcp-Param-Session: =?base64?YQBi?=\r\n",
                      CALL("{\"session\":\"a\\u0000b\"}"), NULL);
}

static void check_modern(const char *headers, const char *body, bool expected)
{
        _cleanup_jsonrpc_ struct jsonrpc_message message;
        struct http_reader reader;
        struct error err = {};

        check_ok(jsonrpc_parse(body, strlen(body), &message, &err));
        read_head(&reader, headers);
        check_eq_int(standard_headers_modern(&reader, &message), expected);
        http_reader_done(&reader);
}

static void test_which_are_modern(void)
{
        static const char plain[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
        static const char note[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}";

        check_modern(VERSION, plain, true);
        check_modern(VERSION, note, true);
        check_modern("", BODY("ping", ""), true);
        check_modern("", plain, false);
        check_modern("", note, false);
        check_modern("MCP-Protocol-Version: 2025-11-25\r\n", plain, false);
        check_modern("MCP-Protocol-Version: 2025-11-25\r\n", BODY("ping", ""), true);
        check_modern("",
                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"_meta\":{"
                     "\"progressToken\":1}}}",
                     false);
}

int main(void)
{
        run(test_version);
        run(test_method);
        run(test_name);
        run(test_session);
        run(test_base64);
        run(test_which_are_modern);
        return 0;
}
