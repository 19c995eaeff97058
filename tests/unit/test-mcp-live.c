/* The notifications that a client gets while its call runs. */
#include "base/clock.h"
#include "supervisor/mcp/call/live.h"
#include "supervisor/mcp/state.h"
#include "tests/unit/fake-mcp.h"

#define CALL_WITH(id, meta)                                                                        \
        "{\"jsonrpc\":\"2.0\",\"id\":" id                                                          \
        ",\"method\":\"tools/call\",\"params\":{\"_meta\":{" meta                                  \
        "},\"name\":\"run_python\",\"arguments\":{\"code\":\"1\"}}}"
#define MODERN_FIELDS                                                                              \
        "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                              \
        "\"io.modelcontextprotocol/clientCapabilities\":{}"

static uint64_t begin(const char *line)
{
        send_line(line);
        fake_spin(&f);
        fake_start(&f);
        return fake_take_exec(&f, NULL, 0);
}

static void print(int fd, const char *text, size_t n)
{
        check_eq_int(write(fd, text, n), (ssize_t)n);
        fake_spin(&f);
}

static void end(uint64_t cell)
{
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
}

static yyjson_doc *next_note(const char *method)
{
        fake_until(&f, sent.length > 0);
        yyjson_doc *doc = take_message();
        check_eq_str(json_string(yyjson_doc_get_root(doc), "method", NULL), method);
        return doc;
}

static const char *text_at(yyjson_doc *doc, const char *pointer)
{
        return yyjson_get_str(yyjson_ptr_get(yyjson_doc_get_root(doc), pointer));
}

static double number_at(yyjson_doc *doc, const char *pointer)
{
        double value = -1;

        check_eq_int(json_double(yyjson_ptr_get(yyjson_doc_get_root(doc), pointer), &value), 0);
        return value;
}

/* New output is reported before the heartbeat is due, and progress grows with each message. */
static void test_last_line(void)
{
        open_server();
        uint64_t cell = begin(CALL_WITH("1", "\"progressToken\":\"t\""));
        print(f.out, "one\ntwo \x1b[2Jb\xe2\x80\xaex\n\n", 18);
        uint64_t before = clock_us();
        _cleanup_json_ yyjson_doc *first = next_note("notifications/progress");
        check(clock_us() - before < LIVE_HEARTBEAT_MS * 1000 / 2);
        check_eq_str(text_at(first, "/params/progressToken"), "t");
        check_has(text_at(first, "/params/message"),
                  "running for 1 s; 0 tool calls; last line: two");
        check_has(text_at(first, "/params/message"), "two  [2Jb x");
        print(f.err, "half a line", 11);
        _cleanup_json_ yyjson_doc *second = next_note("notifications/progress");
        check_has(text_at(second, "/params/message"), "last line: half a line");
        check(number_at(second, "/params/progress") > number_at(first, "/params/progress"));
        end(cell);
        yyjson_doc_free(take_message());
        check_no_message();
        close_server();
}

static void test_calls_are_named(void)
{
        open_server();
        uint64_t cell = begin(CALL_WITH("1", "\"progressToken\":1"));
        fake_send(&f, FRAME_CALL, 5, "{\"server\":\"library\",\"tool\":\"list\",\"arguments\":{}}");
        print(f.out, "x", 1);
        _cleanup_json_ yyjson_doc *doc = next_note("notifications/progress");
        check_has(text_at(doc, "/params/message"),
                  "1 tool call, the last library.list; last line: x");
        fake_tools_answer("{\"content\":[]}");
        end(cell);
        yyjson_doc_free(take_message());
        close_server();
}

/* Only the beginning of a long line is sent, in whole characters. */
static void test_long_line(void)
{
        char text[3000];

        open_server();
        uint64_t cell = begin(CALL_WITH("1", "\"progressToken\":1"));
        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = "\xe6\xbc\xa2"[i % 3];
        print(f.out, text, sizeof(text));
        _cleanup_json_ yyjson_doc *doc = next_note("notifications/progress");
        check(strlen(text_at(doc, "/params/message")) < LIVE_LINE_MAX + 100);
        end(cell);
        yyjson_doc_free(take_message());
        close_server();
}

static void test_output_as_messages(void)
{
        open_server();
        uint64_t cell = begin(
                CALL_WITH("1", MODERN_FIELDS ",\"io.modelcontextprotocol/logLevel\":\"info\""));
        print(f.out, "a\xc3", 2);
        _cleanup_json_ yyjson_doc *first = next_note("notifications/message");
        check_eq_str(text_at(first, "/params/level"), "info");
        check_eq_str(text_at(first, "/params/data/stream"), "stdout");
        check_eq_str(text_at(first, "/params/data/session"), "default");
        check_eq_str(text_at(first, "/params/data/text"), "a");
        print(f.out, "\xa9\n", 2);
        _cleanup_json_ yyjson_doc *second = next_note("notifications/message");
        check_eq_str(text_at(second, "/params/data/text"), "\xc3\xa9\n");
        /* The last output is sent before the answer. */
        print(f.err, "warning\n", 8);
        end(cell);
        _cleanup_json_ yyjson_doc *third = next_note("notifications/message");
        check_eq_str(text_at(third, "/params/data/stream"), "stderr");
        _cleanup_json_ yyjson_doc *answer = take_message();
        check_eq_str(text_at(answer, "/result/structuredContent/stdout"), "a\xc3\xa9\n");
        check_no_message();
        close_server();
}

/* Of much output at once a bounded part is sent, with the size of the rest; the result has all. */
static void test_output_is_bounded(void)
{
        static char text[60000];
        int64_t skipped = 0;

        open_server();
        uint64_t cell = begin(
                CALL_WITH("1", MODERN_FIELDS ",\"io.modelcontextprotocol/logLevel\":\"debug\""));
        memset(text, 'y', sizeof(text));
        print(f.out, text, sizeof(text));
        _cleanup_json_ yyjson_doc *doc = next_note("notifications/message");
        check_eq_int(strlen(text_at(doc, "/params/data/text")), LIVE_OUTPUT_MAX);
        check_eq_int(
                json_int64(yyjson_ptr_get(yyjson_doc_get_root(doc), "/params/data/skipped_bytes"),
                           &skipped),
                0);
        check_eq_int(skipped, (int64_t)sizeof(text) - LIVE_OUTPUT_MAX);
        check_no_message();
        end(cell);
        yyjson_doc_free(take_message());
        close_server();
}

/* Legacy clients set a level for the connection; it does not apply to modern requests. */
static void test_level_of_the_connection(void)
{
        open_server();
        send_line(
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":"
                "\"loud\"}}");
        check_error(-32602, "1", "params.level");
        send_line(
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"logging/setLevel\",\"params\":{\"level\":"
                "\"info\"}}");
        check_message("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
        uint64_t cell = begin(CALL_WITH("3", ""));
        print(f.out, "told\n", 5);
        end(cell);
        _cleanup_json_ yyjson_doc *told = next_note("notifications/message");
        check_eq_str(text_at(told, "/params/data/text"), "told\n");
        yyjson_doc_free(take_message());

        send_line(CALL_WITH("4", MODERN_FIELDS));
        fake_spin(&f);
        cell = fake_take_exec(&f, NULL, 0);
        print(f.out, "kept\n", 5);
        end(cell);
        _cleanup_json_ yyjson_doc *answer = take_message();
        check_eq_str(text_at(answer, "/result/structuredContent/stdout"), "kept\n");

        send_line(
                "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"logging/setLevel\",\"params\":{\"level\":"
                "\"warning\"}}");
        yyjson_doc_free(take_message());
        send_line(CALL_WITH("6", ""));
        fake_spin(&f);
        cell = fake_take_exec(&f, NULL, 0);
        print(f.out, "kept\n", 5);
        end(cell);
        _cleanup_json_ yyjson_doc *last = take_message();
        check(yyjson_ptr_get(yyjson_doc_get_root(last), "/result"));
        close_server();
}

/* After a cancellation no further message of the call is sent. */
static void test_no_message_after_cancel(void)
{
        open_server();
        uint64_t cell = begin(CALL_WITH("1", MODERN_FIELDS ",\"progressToken\":1,"
                                                           "\"io.modelcontextprotocol/logLevel\":"
                                                           "\"debug\""));
        send_line(
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":"
                "1}}");
        print(f.out, "late\n", 5);
        fake_run_ms(&f, 10 * LIVE_HEARTBEAT_MS);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        check_no_message();
        close_server();
}

static bool always(const struct mcp_sink *to)
{
        return true;
}

/* A client that does not read: optional notifications are not queued. */
static void test_slow_reader(void)
{
        open_server();
        sink_calls.congested = always;
        uint64_t cell = begin(CALL_WITH("1", MODERN_FIELDS
                                        ",\"progressToken\":1,"
                                        "\"io.modelcontextprotocol/logLevel\":\"debug\""));
        print(f.out, "one\n", 4);
        fake_run_ms(&f, LIVE_PROGRESS_MS * 3 / 2);
        check_no_message();
        /* The skipped output is counted. */
        sink_calls.congested = NULL;
        print(f.out, "two\n", 4);
        end(cell);
        _cleanup_json_ yyjson_doc *note = next_note("notifications/message");
        int64_t skipped = 0;
        check_eq_int(
                json_int64(yyjson_ptr_get(yyjson_doc_get_root(note), "/params/data/skipped_bytes"),
                           &skipped),
                0);
        check_eq_int(skipped, 8);
        yyjson_doc_free(take_message());
        close_server();
}

int main(void)
{
        run(test_last_line);
        run(test_calls_are_named);
        run(test_long_line);
        run(test_output_as_messages);
        run(test_output_is_bounded);
        run(test_level_of_the_connection);
        run(test_no_message_after_cancel);
        run(test_slow_reader);
        return 0;
}
