/* Revision 2026-07-28: self-contained requests, streams of notifications, both eras at once. */
#include "supervisor/mcp/subscriptions.h"
#include "tests/unit/fake-mcp.h"

#define META_EXTRA(extra)                                                                          \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
        "\"io.modelcontextprotocol/clientCapabilities\":{}" extra "}"
#define META META_EXTRA("")
#define MODERN(id, method, params)                                                                 \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" META params "}}"
#define RUN(id, extra, code)                                                                       \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{" META_EXTRA(    \
                extra) ",\"name\":\"run_python\",\"arguments\":{\"code\":\"" code "\"}}}"
#define CANCEL(id)                                                                                 \
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"                                         \
        "cancelled\",\"params\":{\"requestId\":" id "}}"

static yyjson_val *at(yyjson_doc *doc, const char *pointer)
{
        return yyjson_ptr_get(yyjson_doc_get_root(doc), pointer);
}

static void check_complete(yyjson_doc *doc)
{
        check_eq_str(yyjson_get_str(at(doc, "/result/resultType")), "complete");
        check_eq_str(
                yyjson_get_str(at(doc, "/result/_meta/io.modelcontextprotocol~1serverInfo/name")),
                "cloister");
}

static void check_cacheable(yyjson_doc *doc, const char *scope)
{
        int64_t ttl = -1;

        check_complete(doc);
        check_eq_int(json_int64(at(doc, "/result/ttlMs"), &ttl), 0);
        check(ttl >= 0);
        check_eq_str(yyjson_get_str(at(doc, "/result/cacheScope")), scope);
}

static void test_discover(void)
{
        open_server();
        send_line(MODERN("\"d\"", "server/discover", ""));
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_str(yyjson_get_str(at(doc, "/id")), "d");
        check_cacheable(doc, "private");
        check_eq_str(yyjson_get_str(at(doc, "/result/supportedVersions/0")), "2026-07-28");
        check_eq_int(yyjson_arr_size(at(doc, "/result/supportedVersions")), 1);
        check(yyjson_is_true(at(doc, "/result/capabilities/tools/listChanged")));
        check(yyjson_is_true(at(doc, "/result/capabilities/resources/subscribe")));
        check(at(doc, "/result/capabilities/logging"));
        check_has(yyjson_get_str(at(doc, "/result/instructions")), "run_python");
        check(!at(doc, "/result/serverInfo"));
        close_server();
}

static void test_lists_have_a_ttl(void)
{
        open_server();
        send_line(MODERN("1", "tools/list", ""));
        _cleanup_json_ yyjson_doc *tools = take_message();
        check_cacheable(tools, "private");
        check_eq_str(yyjson_get_str(at(tools, "/result/tools/0/name")), "run_python");
        send_line(MODERN("2", "resources/list", ""));
        _cleanup_json_ yyjson_doc *resources = take_message();
        check_cacheable(resources, "private");
        send_line(MODERN("3", "resources/templates/list", ""));
        _cleanup_json_ yyjson_doc *templates = take_message();
        check_cacheable(templates, "private");
        check_eq_int(yyjson_arr_size(at(templates, "/result/resourceTemplates")), 5);
        close_server();
}

/* Whether the tool mentions plans in a server with this config. */
static bool has_plan(const char *text)
{
        struct config *config = fake_config(text);

        open_server();
        mcp_server_set_config(server, config);
        sent.length = 0;
        send_line(MODERN("1", "tools/list", ""));
        _cleanup_json_ yyjson_doc *doc = take_message();
        const char *description = yyjson_get_str(at(doc, "/result/tools/0/description"));
        bool ret = strstr(description, "plan") != NULL;
        check_eq_int(at(doc, "/result/tools/0/inputSchema/properties/plan") != NULL, ret);
        close_server();
        config_free(config);
        return ret;
}

/* Every conversation has the description: it mentions plans where a rule asks only. */
static void test_plans_are_mentioned_where_a_rule_asks(void)
{
        check(!has_plan("{}"));
        check(!has_plan(
                "{\"mcpServers\":{\"s\":{\"command\":\"/bin/true\"}},\"rules\":[{\"deny\":\"s.a\"},{\"allow\":\"s.b\"}]}"));
        check(has_plan(
                "{\"mcpServers\":{\"s\":{\"command\":\"/bin/true\"}},\"rules\":[{\"ask\":\"s.a\"}]}"));
}

static void test_required_members_of_a_request(void)
{
        open_server();
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}");
        check_error(-32602, "1", "clientCapabilities");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
        check_error(-32602, "2", "protocolVersion");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"server/discover\"}");
        check_error(-32602, "3", "protocolVersion");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/protocolVersion\":20260728,"
                  "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
        check_error(-32602, "4", "protocolVersion");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/list\",\"params\":{" META_EXTRA(
                ",\"io.modelcontextprotocol/logLevel\":\"loud\"") "}}");
        check_error(-32602, "5", "log level");
        send_line(MODERN("6", "tools/call", ",\"name\":\"nothing\""));
        check_error(-32602, "6", "unknown tool: nothing");
        send_line(MODERN("7", "tools/list", ",\"cursor\":\"x\""));
        check_error(-32602, "7", "cursor");
        close_server();
}

static void test_unknown_version(void)
{
        open_server();
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/protocolVersion\":\"1900-01-01\"}}}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        int64_t code = 0;
        check_eq_int(json_int64(at(doc, "/error/code"), &code), 0);
        check_eq_int(code, -32022);
        check_eq_str(yyjson_get_str(at(doc, "/error/data/supported/0")), "2026-07-28");
        check_eq_str(yyjson_get_str(at(doc, "/error/data/requested")), "1900-01-01");
        close_server();
}

static void test_removed_methods(void)
{
        static const char *const lines[] = {
                MODERN("1", "initialize", ",\"protocolVersion\":\"2025-11-25\""),
                MODERN("1", "ping", ""),
                MODERN("1", "logging/setLevel", ",\"level\":\"info\""),
                MODERN("1", "resources/subscribe",
                       ",\"uri\":\"cloister://sessions/a/cells/1/stdout\""),
                MODERN("1", "resources/unsubscribe",
                       ",\"uri\":\"cloister://sessions/a/cells/1/stdout\""),
                MODERN("1", "prompts/lists", ""),
        };

        open_server();
        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
                send_line(lines[i]);
                check_error(-32601, "1", "method not found");
        }
        check_no_message();
        close_server();
}

static void test_call(void)
{
        open_server();
        send_line(RUN("1", "", "1+1"));
        fake_spin(&f);
        fake_start(&f);
        finish_cell("{\"status\":\"ok\",\"value\":{\"repr\":\"2\",\"json\":2}}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_complete(doc);
        check(!at(doc, "/result/ttlMs"));
        check_eq_str(yyjson_get_str(at(doc, "/result/content/0/text")), "value: 2");
        close_server();
}

/* Both kinds of requests on one pipe, in either order. */
static void test_both_eras(void)
{
        open_server();
        for (int i = 0; i < 2; i++) {
                send_line(MODERN("1", "server/discover", ""));
                _cleanup_json_ yyjson_doc *discovered = take_message();
                check_complete(discovered);
                send_line(INITIALIZE("2025-06-18"));
                _cleanup_json_ yyjson_doc *initialized = take_message();
                check_eq_str(yyjson_get_str(at(initialized, "/result/protocolVersion")),
                             "2025-06-18");
                check(!at(initialized, "/result/resultType"));
                send_line("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}");
                check_message("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
                send_line("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/list\"}");
                _cleanup_json_ yyjson_doc *legacy = take_message();
                check(!at(legacy, "/result/resultType") && !at(legacy, "/result/ttlMs"));
        }
        /* Only revision 2025-03-26 has batches. */
        send_line(INITIALIZE("2025-03-26"));
        yyjson_doc_free(take_message());
        send_line("[" MODERN("6", "tools/list",
                             "") ",{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}]");
        _cleanup_json_ yyjson_doc *batch = take_message();
        int64_t code = 0;
        check_eq_int(json_int64(at(batch, "/0/error/code"), &code), 0);
        check_eq_int(code, -32600);
        check(yyjson_is_obj(at(batch, "/1/result")));
        close_server();
}

static void test_cancel(void)
{
        open_server();
        send_line(RUN("\"c\"", ",\"progressToken\":1", "while True: pass"));
        fake_spin(&f);
        fake_start(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        send_line(CANCEL("\"c\""));
        check_eq_int(f.interrupts, 1);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        check_no_message();
        close_server();
}

#define CHANGED "{\"servers\":[{\"name\":\"s\",\"state\":\"ready\",\"tools\":[{\"name\":\"t\"}]}]}"

static void test_listen(void)
{
        open_server();
        send_line(MODERN("1", "subscriptions/listen", ""));
        check_error(-32602, "1", "notifications");
        send_line(
                MODERN("\"a\"", "subscriptions/listen",
                       ",\"notifications\":{\"toolsListChanged\":true,\"promptsListChanged\":true,"
                       "\"resourceSubscriptions\":[\"file:///x\","
                       "\"cloister://sessions/default/cells/1/stdout\"]}"));
        check_message(
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                "\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\"a\"},"
                "\"notifications\":{\"toolsListChanged\":true,\"promptsListChanged\":true,"
                "\"resourceSubscriptions\":["
                "\"cloister://sessions/default/cells/1/stdout\"]}}}");
        send_line(MODERN("2", "subscriptions/listen", ",\"notifications\":{}"));
        check_message(
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                "\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":2},"
                "\"notifications\":{}}}");
        check_no_message();
        /* Only the stream that subscribed is notified, once for each change. */
        fake_tools_change(CHANGED);
        mcp_server_catalogue_changed(server);
        mcp_server_catalogue_changed(server);
        check_message("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\","
                      "\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\"a\"}}}");
        check_no_message();
        send_line(CANCEL("\"a\""));
        fake_tools_change("{\"servers\":[]}");
        mcp_server_catalogue_changed(server);
        check_no_message();
        /* The server ends: the remaining stream gets its result. */
        subscriptions_close(server);
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_complete(doc);
        int64_t id = 0;
        check_eq_int(
                json_int64(at(doc, "/result/_meta/io.modelcontextprotocol~1subscriptionId"), &id),
                0);
        check_eq_int(id, 2);
        check_no_message();
        close_server();
}

/* A modern client that listed tools gets no unsolicited notification; a legacy one does. */
static void test_unsolicited(void)
{
        open_server();
        send_line(MODERN("1", "tools/list", ""));
        yyjson_doc_free(take_message());
        fake_tools_change(CHANGED);
        mcp_server_catalogue_changed(server);
        check_no_message();
        send_line("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}");
        yyjson_doc_free(take_message());
        fake_tools_change("{\"servers\":[]}");
        /* A modern request for the list does not suppress the notification of the legacy client. */
        send_line(MODERN("3", "tools/list", ""));
        yyjson_doc_free(take_message());
        mcp_server_catalogue_changed(server);
        check_message("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
        mcp_server_catalogue_changed(server);
        check_no_message();
        close_server();
}

static void test_many_streams(void)
{
        char line[400];

        open_server();
        for (int i = 0; i < 65; i++) {
                snprintf(line, sizeof(line),
                         MODERN("%d", "subscriptions/listen",
                                ",\"notifications\":{\"toolsListChanged\":true}"),
                         i);
                send_line(line);
                if (i < 64)
                        yyjson_doc_free(take_message());
        }
        check_error(-32603, "64", "too many subscriptions");
        close_server();
}

int main(void)
{
        run(test_discover);
        run(test_lists_have_a_ttl);
        run(test_plans_are_mentioned_where_a_rule_asks);
        run(test_required_members_of_a_request);
        run(test_unknown_version);
        run(test_removed_methods);
        run(test_call);
        run(test_both_eras);
        run(test_cancel);
        run(test_listen);
        run(test_unsolicited);
        run(test_many_streams);
        return 0;
}
