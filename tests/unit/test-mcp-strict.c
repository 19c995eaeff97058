/* Messages that a client must not send, each beside the nearest one that it may send. */
#include "tests/unit/fake-mcp.h"

#define META_FIELDS(fields) "\"_meta\":{" fields "}"
#define VERSION             "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\""
#define CAPABILITIES        "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define CLIENT(value)       "\"io.modelcontextprotocol/clientInfo\":" value
#define META                META_FIELDS(VERSION "," CAPABILITIES)
#define REQUEST(id, method, params)                                                                \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":" params "}"
#define LISTEN(id, filter)                                                                         \
        REQUEST(id, "subscriptions/listen", "{" META ",\"notifications\":" filter "}")
#define CANCEL(id)                                                                                  \
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id \
        "}}"
/* One message, whatever it says. */
static void drop_message(void)
{
        yyjson_doc_free(take_message());
}

static void initialize(const char *line)
{
        send_line(line);
        drop_message();
}

/* The id of an error is left out where it could not be read; revisions before 2025-11-25 have no
 * such errors, and JSON-RPC says null. */
static void test_errors_without_an_id(void)
{
        open_server();
        send_line("not json");
        check_error(-32700, NULL, "not JSON");
        initialize(INITIALIZE("2025-11-25"));
        send_line("{}");
        check_error(-32600, NULL, "jsonrpc");
        mcp_peer_too_long(peer, &sink, 1000);
        check_error(-32600, NULL, "1000 bytes");
        send_line("[]");
        check_error(-32600, NULL, "batch");
        initialize(INITIALIZE("2025-06-18"));
        send_line("{}");
        check_error(-32600, "null", "jsonrpc");
        close_server();
}

static void test_ids(void)
{
        static const char *const others[] = {"1.5", "1e3", "1.0", "null", "true", "[1]", "{}"};
        static const char *const ids[] = {"0", "-7", "12345678901234567890", "\"\"", "\"1.5\""};
        char line[200];

        open_server();
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                snprintf(line, sizeof(line), REQUEST("%s", "ping", "{}"), others[i]);
                send_line(line);
                check_error(-32600, NULL, "the id is neither a string nor an integer");
        }
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
                snprintf(line, sizeof(line), REQUEST("%s", "ping", "{}"), ids[i]);
                send_line(line);
                snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}",
                         ids[i]);
                check_message(line);
        }
        close_server();
}

static void test_progress_tokens(void)
{
        static const char *const tokens[] = {"1.5", "null", "{}", "[]", "true"};
        char line[300];

        open_server();
        for (size_t i = 0; i < ARRAY_SIZE(tokens); i++) {
                snprintf(line, sizeof(line),
                         REQUEST("1", "ping", "{" META_FIELDS("\"progressToken\":%s") "}"),
                         tokens[i]);
                send_line(line);
                check_error(-32602, "1", "progressToken");
        }
        send_line(REQUEST("1", "ping", "{" META_FIELDS("\"progressToken\":7") "}"));
        check_message("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        close_server();
}

/* A cancelled call has no answer, and the other answers of its batch do not wait for its end. */
static void test_cancelled_in_a_batch(void)
{
        open_server();
        initialize(INITIALIZE("2025-03-26"));
        send_line("[" CALL("4", "{\"code\":\"1\"}") "," REQUEST("5", "ping", "{}") "]");
        fake_spin(&f);
        fake_start(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        check_no_message();
        send_line(CANCEL("4"));
        check_message("[{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}]");
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        check_no_message();
        /* Nothing is left to answer. */
        send_line("[" CALL("6", "{\"code\":\"1\"}") "," CANCEL("6") "]");
        check_no_message();
        close_server();
}

static void test_ids_in_use(void)
{
        open_server();
        send_line(CALL("4", "{\"code\":\"1\"}"));
        fake_spin(&f);
        fake_start(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        send_line(CALL("4", "{\"code\":\"2\"}"));
        check_error(-32600, "4", "in use");
        send_line(LISTEN("4", "{}"));
        check_error(-32600, "4", "in use");
        send_line(REQUEST("4", "ping", "{}"));
        check_error(-32600, "4", "in use");
        send_line(REQUEST("\"4\"", "ping", "{}")); /* another id */
        drop_message();
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        drop_message();
        send_line(REQUEST("4", "ping", "{}")); /* free again */
        check_message("{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}");
        check_no_message();
        close_server();
}

/* Also where the first request has its answer already: both answers would be in one array. */
static void test_ids_of_a_batch(void)
{
        open_server();
        initialize(INITIALIZE("2025-03-26"));
        send_line("[" REQUEST("4", "ping", "{}") "," REQUEST("\"4\"", "ping", "{}") "," REQUEST(
                "4", "ping", "{}") "," REQUEST("5", "ping", "{}") "]");
        check_message("[{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}},"
                      "{\"jsonrpc\":\"2.0\",\"id\":\"4\",\"result\":{}},"
                      "{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-32600,\"message\":"
                      "\"the id is in use by another request\"}},"
                      "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}]");
        send_line("[" CALL("4", "{\"code\":\"1\"}") "," CALL("4", "{\"code\":\"1\"}") "," CANCEL(
                "4") "]");
        check_message("[{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-32600,\"message\":"
                      "\"the id is in use by another request\"}}]");
        send_line(REQUEST("4", "ping", "{}")); /* free again */
        check_message("{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}");
        close_server();
}

static void test_a_duplicated_stream(void)
{
        open_server();
        send_line(LISTEN("\"a\"", "{\"toolsListChanged\":true}"));
        drop_message();
        send_line(LISTEN("\"a\"", "{\"toolsListChanged\":true}"));
        check_error(-32600, "\"a\"", "in use");
        send_line(CALL("\"a\"", "{\"code\":\"2\"}"));
        check_error(-32600, "\"a\"", "in use");
        send_line(CANCEL("\"a\""));
        fake_tools_change("{\"servers\":[{\"name\":\"s\",\"state\":\"ready\",\"tools\":[{\"name\":"
                          "\"t\"}]}]}");
        mcp_server_catalogue_changed(server);
        check_no_message();
        send_line(LISTEN("\"a\"", "{\"toolsListChanged\":true}"));
        drop_message();
        close_server();
}

static void test_filters(void)
{
        static const char *const filters[] = {
                "{\"toolsListChanged\":\"yes\"}",
                "{\"toolsListChanged\":null}",
                "{\"promptsListChanged\":1}",
                "{\"resourcesListChanged\":[]}",
                "{\"resourceSubscriptions\":[\"a\",5]}",
                "{\"resourceSubscriptions\":\"a\"}",
        };
        char line[500];

        open_server();
        for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
                snprintf(line, sizeof(line), LISTEN("1", "%s"), filters[i]);
                send_line(line);
                check_error(-32602, "1", "params.notifications.");
        }
        /* Unknown kinds of notifications are left out of what is agreed to. */
        send_line(LISTEN("1", "{\"toolsListChanged\":false,\"tasks\":\"yes\"}"));
        drop_message();
        check_no_message();
        close_server();
}

static void test_initialize(void)
{
        static const char *const params[][2] = {
                {"{}", "protocolVersion"},
                {"[]", "params must be an object"},
                {"{\"protocolVersion\":1,\"capabilities\":{},\"clientInfo\":{\"name\":\"c\","
                 "\"version\":\"1\"}}",
                 "protocolVersion"},
                {"{\"protocolVersion\":\"2025-11-25\",\"clientInfo\":{\"name\":\"c\",\"version\":"
                 "\"1\"}}",
                 "capabilities"},
                {"{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}", "clientInfo"},
                {"{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{"
                 "\"name\":\"c\"}}",
                 "clientInfo"},
        };
        char line[400];

        open_server();
        for (size_t i = 0; i < ARRAY_SIZE(params); i++) {
                snprintf(line, sizeof(line), REQUEST("1", "initialize", "%s"), params[i][0]);
                send_line(line);
                check_error(-32602, "1", params[i][1]);
        }
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}");
        check_error(-32602, "1", "protocolVersion");
        /* A refused initialize changes nothing: the revision of the connection is still unknown. */
        initialize(INITIALIZE("2025-03-26"));
        send_line("[" INITIALIZE("2025-06-18") "]");
        _cleanup_json_ yyjson_doc *doc = take_message();
        int64_t code = 0;
        check_eq_int(json_int64(yyjson_ptr_get(yyjson_doc_get_root(doc), "/0/error/code"), &code),
                     0);
        check_eq_int(code, -32600);
        send_line("[" REQUEST("5", "ping", "{}") "]"); /* still 2025-03-26, which has batches */
        check_message("[{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}]");
        close_server();
}

static void test_params(void)
{
        static const char *const lines[] = {
                REQUEST("1", "tools/list", "[]"),
                REQUEST("1", "ping", "[1]"),
                REQUEST("1", "ping", "{\"_meta\":[]}"),
                REQUEST("1", "ping", "{\"_meta\":null}"),
        };
        static const char *const lists[] = {"tools/list", "resources/list",
                                            "resources/templates/list"};
        static const char *const cursors[] = {"5", "{}", "[]", "\"x\""};
        char line[200];

        open_server();
        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
                send_line(lines[i]);
                check_error(-32602, "1", "must be");
        }
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                for (size_t j = 0; j < ARRAY_SIZE(cursors); j++) {
                        snprintf(line, sizeof(line), REQUEST("1", "%s", "{\"cursor\":%s}"),
                                 lists[i], cursors[j]);
                        send_line(line);
                        check_error(-32602, "1", "cursor");
                }
                snprintf(line, sizeof(line), REQUEST("1", "%s", "{\"cursor\":\"\"}"), lists[i]);
                send_line(line);
                drop_message();
        }
        close_server();
}

/* One of the fields of a modern request makes it one, so that the error names what is missing. */
static void test_a_part_of_the_modern_fields(void)
{
        open_server();
        send_line(REQUEST("1", "tools/list",
                          "{" META_FIELDS(CLIENT("{\"name\":\"c\",\"version\":\"1\"}")) "}"));
        check_error(-32602, "1", "protocolVersion");
        send_line(REQUEST("1", "tools/list",
                          "{" META_FIELDS("\"io.modelcontextprotocol/logLevel\":\"info\"") "}"));
        check_error(-32602, "1", "protocolVersion");
        send_line(REQUEST("1", "tools/list",
                          "{" META_FIELDS(VERSION "," CAPABILITIES "," CLIENT("\"c\"")) "}"));
        check_error(-32602, "1", "clientInfo");
        send_line(
                REQUEST("1", "tools/list",
                        "{" META_FIELDS(VERSION "," CAPABILITIES "," CLIENT("{\"name\":5}")) "}"));
        check_error(-32602, "1", "clientInfo");
        send_line(REQUEST("1", "tools/list", "{" META "}"));
        drop_message();
        check_no_message();
        close_server();
}

int main(void)
{
        run(test_errors_without_an_id);
        run(test_ids);
        run(test_progress_tokens);
        run(test_cancelled_in_a_batch);
        run(test_ids_in_use);
        run(test_ids_of_a_batch);
        run(test_a_duplicated_stream);
        run(test_filters);
        run(test_initialize);
        run(test_params);
        run(test_a_part_of_the_modern_fields);
        return 0;
}
