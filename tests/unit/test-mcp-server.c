/* The MCP server: lines in, messages out, cells between. */
#include "supervisor/mcp/server.h"

#include "supervisor/mcp/call/result.h"
#include "supervisor/mcp/tool.h"
#include "tests/unit/fake-mcp.h"

static void test_initialize(void)
{
        static const char *const versions[][2] = {
                {"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"},
                {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"},
                {"2026-07-28", "2025-11-25"}, {"1.0", "2025-11-25"},
        };
        char line[256];

        open_server();
        for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
                snprintf(line, sizeof(line),
                         "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"initialize\",\"params\":{"
                         "\"protocolVersion\":\"%s\",\"capabilities\":{},"
                         "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}",
                         i, versions[i][0]);
                send_line(line);
                _cleanup_json_ yyjson_doc *doc = take_message();
                yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(doc), "result");
                check_eq_str(json_string(result, "protocolVersion", NULL), versions[i][1]);
                check(yyjson_is_true(yyjson_ptr_get(result, "/capabilities/tools/listChanged")));
                check_eq_str(json_string(yyjson_obj_get(result, "serverInfo"), "name", NULL),
                             "cloister");
                size_t n = 0;
                const char *instructions = json_string(result, "instructions", &n);
                check(n < 4000);
                check_eq_int(strncmp(instructions, "Use run_python", 14), 0);
        }
        close_server();
}

static void test_small_methods(void)
{
        open_server();
        send_line("{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}");
        check_message("{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{}}");
        check_error(-32602, "1", "protocolVersion");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"prompts/lists\"}");
        check_error(-32601, "2", "method not found");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\\u0000x\"}");
        check_error(-32601, "3", "method not found");
        send_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard-of\"}");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}");
        check_no_message();
        send_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        check_no_message();
        check_eq_int(fake_tools.started_unknown, 1);
        close_server();
}

static void test_malformed(void)
{
        open_server();
        send_line("not json");
        check_error(-32700, NULL, "not JSON");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":12345678901234567890,\"method\":\"tools/"
                  "call\",\"params\":{\"x\":"
                  "\"\xff\"}}");
        check_error(-32700, "12345678901234567890", "UTF-8");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":7}");
        check_error(-32600, "4", "method");
        send_line("17");
        check_error(-32600, NULL, "");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\"}");
        check_error(-32602, "5", "name");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"tools/"
                  "call\",\"params\":{\"name\":\"run\"}}");
        check_error(-32602, "6", "unknown tool: run");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/"
                  "list\",\"params\":{\"cursor\":\"x\"}}");
        check_error(-32602, "7", "cursor");
        mcp_peer_too_long(peer, &sink, 1000);
        check_error(-32600, NULL, "1000 bytes");
        close_server();
}

static void check_hints(const char *catalogue, bool destructive, bool open_world)
{
        fake_tools_change(catalogue);
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                  "list\",\"params\":{\"cursor\":\"\"}}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        yyjson_val *a = yyjson_ptr_get(yyjson_doc_get_root(doc), "/result/tools/0/annotations");
        check(yyjson_is_bool(yyjson_obj_get(a, "destructiveHint")));
        check_eq_int(yyjson_get_bool(yyjson_obj_get(a, "destructiveHint")), destructive);
        check_eq_int(yyjson_get_bool(yyjson_obj_get(a, "openWorldHint")), open_world);
        check(yyjson_is_false(yyjson_obj_get(a, "readOnlyHint")));
}

static void test_list(void)
{
        open_server();
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
        check_eq_int(fake_tools.started_unknown, 1);
        _cleanup_json_ yyjson_doc *doc = take_message();
        yyjson_val *tools = yyjson_ptr_get(yyjson_doc_get_root(doc), "/result/tools");
        check_eq_int(yyjson_arr_size(tools), 1);
        yyjson_val *tool = yyjson_arr_get_first(tools);
        check_eq_str(json_string(tool, "name", NULL), "run_python");
        check(yyjson_is_true(yyjson_ptr_get(tool, "/_meta/anthropic~1alwaysLoad")));
        check(!yyjson_ptr_get(tool, "/inputSchema/required")); /* without code, a call waits */
        check(yyjson_ptr_get(tool, "/outputSchema/properties/status"));

        check_hints("{\"servers\":[]}", false, false);
        check_hints("{\"servers\":[{\"name\":\"s\",\"state\":\"starting\",\"tools\":[]}]}", true,
                    true);
        check_hints("{\"servers\":[{\"name\":\"s\",\"state\":\"failed\",\"tools\":[]}]}", false,
                    false);
        check_hints(
                "{\"servers\":[{\"name\":\"s\",\"state\":\"ready\",\"tools\":[{\"name\":\"t\"}]}]}",
                true, true);
        check_hints("{\"servers\":[{\"name\":\"s\",\"state\":\"ready\",\"tools\":[{\"name\":\"t\","
                    "\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false}}]}]}",
                    false, false);
        check_hints("{\"servers\":[{\"name\":\"s\",\"state\":\"cached\",\"tools\":[{\"name\":\"t\","
                    "\"annotations\":{\"destructiveHint\":false}}]}]}",
                    false, true);
        close_server();
}

/* Many servers with many tools: the bounds hold, each server is named while there is room. */
static void test_description_bound(void)
{
        _cleanup_buffer_ struct buffer catalogue = BUFFER_INIT(1024 * 1024);

        open_server();
        buffer_printf(&catalogue, "{\"servers\":[");
        for (int s = 0; s < 8; s++) {
                buffer_printf(&catalogue,
                              "%s{\"name\":\"server%d\",\"state\":\"ready\",\"tools\":[",
                              s ? "," : "", s);
                for (int t = 0; t < 50; t++)
                        buffer_printf(&catalogue,
                                      "%s{\"name\":\"tool-%d\",\"inputSchema\":{\"properties\":{"
                                      "\"first\":{},"
                                      "\"second\":{}},\"required\":[\"first\"]}}",
                                      t ? "," : "", t);
                buffer_printf(&catalogue, "]}");
        }
        buffer_append(&catalogue, "]}", 3);
        fake_tools_change(buffer_bytes(&catalogue));
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        size_t n = 0;
        const char *text = json_string(yyjson_ptr_get(yyjson_doc_get_root(doc), "/result/tools/0"),
                                       "description", &n);
        check(n < 2048);
        check_has(text, "server0: tool-0; tool-1; ");
        check_has(text, "server7:");
        check_has(text, " more");
        close_server();
}

static size_t description_length(yyjson_doc *doc, const char **text)
{
        size_t n = 0;

        *text = json_string(yyjson_ptr_get(yyjson_doc_get_root(doc), "/result/tools/0"),
                            "description", &n);
        return n;
}

/* However many there are, and whatever their names, the description has at most 2 KiB and names the resource. */
static void test_description_of_any_catalogue(void)
{
        static const struct {
                int servers, tools, name;
        } cases[] = {{0, 0, 1},    {1, 10000, 1}, {1, 3, 250},
                     {40, 250, 8}, {300, 1, 200}, {2, 60, 1}};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_buffer_ struct buffer text = BUFFER_INIT(16 * 1024 * 1024);
                const char *description;

                open_server();
                buffer_done(&fake_tools.catalogue);
                buffer_init(&fake_tools.catalogue, 16 * 1024 * 1024);
                buffer_printf(&text, "{\"servers\":[");
                for (int s = 0; s < cases[i].servers; s++) {
                        buffer_printf(&text, "%s{\"name\":\"%0*d\",\"state\":\"ready\",\"tools\":[",
                                      s ? "," : "", cases[i].name, s);
                        for (int t = 0; t < cases[i].tools; t++)
                                buffer_printf(
                                        &text,
                                        "%s{\"name\":\"t%0*d\",\"inputSchema\":{\"properties\":{\"a\":{}}}}",
                                        t ? "," : "", cases[i].name, t);
                        buffer_printf(&text, "]}");
                }
                buffer_append(&text, "]}", 3);
                fake_tools_change(buffer_bytes(&text));
                send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
                _cleanup_json_ yyjson_doc *doc = take_message();
                check(description_length(doc, &description) <= 2048);
                check_has(description, "the resource cloister://tools");
                close_server();
        }
}

/* Where the signatures of a server do not fit, more tools are named without them. */
static void test_names_before_signatures(void)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(1024 * 1024);
        const char *description;

        open_server();
        buffer_printf(&text, "{\"servers\":[{\"name\":\"s\",\"state\":\"ready\",\"tools\":[");
        for (int t = 0; t < 60; t++)
                buffer_printf(
                        &text,
                        "%s{\"name\":\"tool%d\",\"inputSchema\":{\"properties\":{\"argument\":{}}}}",
                        t ? "," : "", t);
        buffer_append(&text, "]}]}", 5);
        fake_tools_change(buffer_bytes(&text));
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        description_length(doc, &description);
        check_has(description, "\ns: tool0; tool1; ");
        check_has(description, "; tool59\n");
        close_server();
}

static void test_list_changed(void)
{
        open_server();
        mcp_server_catalogue_changed(server);
        check_no_message(); /* no client has listed yet */
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
        yyjson_doc_free(take_message());
        mcp_server_catalogue_changed(server);
        check_no_message(); /* no visible change */
        fake_tools_change("{\"servers\":[{\"name\":\"s\",\"state\":\"ready\",\"tools\":[{\"name\":"
                          "\"t\"}]}]}");
        mcp_server_catalogue_changed(server);
        check_message("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
        mcp_server_catalogue_changed(server);
        check_no_message();
        close_server();
}

static void test_call(void)
{
        open_server();
        send_line(CALL("\"abc\"", "{\"code\":\"1+1\"}"));
        fake_spin(&f);
        fake_start(&f);
        check_no_message();
        finish_cell("{\"status\":\"ok\",\"value\":{\"repr\":\"2\",\"json\":2}}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        yyjson_val *root = yyjson_doc_get_root(doc);
        check_eq_str(json_string(root, "id", NULL), "abc");
        check_eq_str(json_string(yyjson_ptr_get(root, "/result/structuredContent"), "status", NULL),
                     "ok");
        check_eq_str(json_string(yyjson_ptr_get(root, "/result/structuredContent"), "state", NULL),
                     "new");
        check_eq_str(json_string(yyjson_ptr_get(root, "/result/content/0"), "text", NULL),
                     "value: 2");
        close_server();
}

static void test_call_refused(void)
{
        open_server();
        send_line(CALL("1", "{\"code\":\"1\",\"sesion\":\"a\"}"));
        _cleanup_json_ yyjson_doc *doc = take_message();
        yyjson_val *root = yyjson_doc_get_root(doc);
        check(yyjson_is_true(yyjson_ptr_get(root, "/result/isError")));
        check_has(json_string(yyjson_ptr_get(root, "/result/content/0"), "text", NULL),
                  "unknown argument \"sesion\": did you mean \"session\"?");
        check_eq_str(json_string(yyjson_ptr_get(root, "/result/structuredContent"), "status", NULL),
                     "error");
        check_eq_int(f.creates, 0);
        close_server();
}

static void test_two_sessions(void)
{
        open_server();
        send_line(CALL("1", "{\"code\":\"1\",\"session\":\"a\"}"));
        send_line(CALL("2", "{\"code\":\"2\",\"session\":\"b\"}"));
        fake_spin(&f);
        check_eq_int(f.creates, 2);
        /* The second sandbox is ready first; its answer does not wait for the first one's. */
        fake_start(&f);
        finish_cell("{\"status\":\"ok\"}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        int64_t id = 0;
        check_eq_int(json_int64(yyjson_obj_get(yyjson_doc_get_root(doc), "id"), &id), 0);
        check_eq_int(id, 2);
        check_no_message();
        close_server();
}

static void test_cancel(void)
{
        open_server();
        send_line(CALL("1", "{\"code\":\"while True: pass\"}"));
        fake_spin(&f);
        fake_start(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        send_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                  "cancelled\",\"params\":{\"requestId\":99}}");
        check_eq_int(f.interrupts, 0);
        send_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                  "cancelled\",\"params\":{\"requestId\":\"1\"}}");
        check_eq_int(f.interrupts, 0); /* another id */
        send_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                  "cancelled\",\"params\":{\"requestId\":1}}");
        check_eq_int(f.interrupts, 1);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        check_no_message(); /* a cancelled request has no answer */
        send_line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                  "cancelled\",\"params\":{\"requestId\":1}}");
        /* The session continues. */
        send_line(CALL("2", "{\"code\":\"1\"}"));
        fake_spin(&f);
        finish_cell("{\"status\":\"ok\"}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_str(
                json_string(yyjson_ptr_get(yyjson_doc_get_root(doc), "/result/structuredContent"),
                            "state", NULL),
                "kept");
        close_server();
}

static void test_progress(void)
{
        open_server();
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                  "call\",\"params\":{\"name\":\"run_python\","
                  "\"arguments\":{\"code\":\"1\"},\"_meta\":{\"progressToken\":\"tok\"}}}");
        send_line(CALL("2", "{\"code\":\"2\"}")); /* no token: no progress */
        fake_until(&f, sent.length > 0);
        _cleanup_json_ yyjson_doc *doc = take_message();
        yyjson_val *root = yyjson_doc_get_root(doc), *params = yyjson_obj_get(root, "params");
        check_eq_str(json_string(root, "method", NULL), "notifications/progress");
        check_eq_str(json_string(params, "progressToken", NULL), "tok");
        check(json_is_number(yyjson_obj_get(params, "progress")));
        check_no_message();
        close_server();
}

static void test_batch(void)
{
        open_server();
        send_line(INITIALIZE("2025-03-26"));
        yyjson_doc_free(take_message());
        send_line("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"},3,"
                  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"nothing\"}]");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_int(yyjson_arr_size(yyjson_doc_get_root(doc)), 3);
        check_no_message();
        /* Only notifications: no answer at all. */
        send_line("[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]");
        check_no_message();
        /* The array waits for the call that it contains. */
        send_line("[{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}," CALL(
                "4", "{\"code\":\"1\"}") "]");
        check_no_message();
        fake_spin(&f);
        fake_start(&f);
        finish_cell("{\"status\":\"ok\"}");
        _cleanup_json_ yyjson_doc *second = take_message();
        check_eq_int(yyjson_arr_size(yyjson_doc_get_root(second)), 2);
        /* Later revisions have no batches. */
        send_line(INITIALIZE("2025-06-18"));
        yyjson_doc_free(take_message());
        send_line("[{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}]");
        check_error(-32600, "null", "batch");
        close_server();
}

/* 16 MiB of code reach the worker. */
static void test_large_code(void)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(64 * 1024 * 1024);
        char *code = malloc(CELL_CODE_MAX + 1);

        open_server();
        memset(code, '#', CELL_CODE_MAX + 1);
        for (int over = 0; over < 2; over++) {
                buffer_consume(&line, line.length);
                buffer_printf(
                        &line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{"
                        "\"name\":\"run_python\",\"arguments\":{\"code\":\"",
                        over);
                check_eq_int(buffer_append(&line, code, CELL_CODE_MAX + (size_t)over), 0);
                buffer_printf(&line, "\"}}}");
                mcp_peer_line(peer, &sink, buffer_bytes(&line), line.length);
                fake_spin(&f);
                check_eq_int(f.creates, 1);
        }
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_has(json_string(yyjson_ptr_get(yyjson_doc_get_root(doc), "/result/content/0"), "text",
                              NULL),
                  "at most 16777216 are taken");
        fake_start(&f);
        finish_cell("{\"status\":\"ok\"}");
        yyjson_doc_free(take_message());
        free(code);
        close_server();
}

int main(void)
{
        run(test_initialize);
        run(test_small_methods);
        run(test_malformed);
        run(test_list);
        run(test_description_bound);
        run(test_description_of_any_catalogue);
        run(test_names_before_signatures);
        run(test_list_changed);
        run(test_call);
        run(test_call_refused);
        run(test_two_sessions);
        run(test_cancel);
        run(test_progress);
        run(test_batch);
        run(test_large_code);
        return 0;
}
