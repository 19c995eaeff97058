/* Calls that do not wait for the end of their code: wait, interrupt, calls without code, busy sessions. */
#include "rpc/client-request.h"
#include "supervisor/mcp/call/ask.h"
#include "tests/unit/fake-waits.h"

#define MODERN(id, arguments, more)                                                                \
        REQUEST(id, "tools/call",                                                                  \
                META("\"roots\":{}") ",\"name\":\"run_python\",\"arguments\":" arguments more)
/* Each output and each result is in one answer. */
static void test_wait(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":2,\"timeout\":60}"), true);
        print("one\n\xc3");
        fake_run_ms(&f, 1990);
        check_no_message();
        fake_run_ms(&f, 20);
        _cleanup_json_ yyjson_doc *first = take_answer(1, "running");
        check_eq_str(text_at(first, STDOUT), "one\n");
        check_has(text_at(first, NOTICE), "the code has run for 2 s of at most 60 s");
        check_has(text_at(first, NOTICE), "call with session \"default\" and no code");
        check(yyjson_is_false(at(first, "/result/isError")));
        print("\xa9two\n");
        fake_run_ms(&f, 5000);
        check_eq_int(f.interrupts, 0);
        send_line(CALL("2", "{\"session\":\"default\",\"wait\":1}"));
        fake_run_ms(&f, 1010);
        check_answer(2, "running", "\xc3\xa9two\n");
        send_line(CALL("3", "{\"wait\":\"0\"}")); /* looks */
        fake_run_ms(&f, 10);
        check_answer(3, "running", NULL);
        send_line(CALL("4", "{\"session\":\"default\"}"));
        print("three\n");
        fake_run_ms(&f, 30000);
        check_no_message();
        end(cell);
        _cleanup_json_ yyjson_doc *last = take_answer(4, "ok");
        check_eq_str(text_at(last, STDOUT), "three\n");
        check_eq_str(text_at(last, "/result/structuredContent/value/repr"), "42");
        check_has(text_at(last, NOTICE), "begins where the last answer ended");
        check_nothing(CALL("5", "{\"wait\":1}"), 5);
        close_stopped();
}

/* The code ends while no request waits: the result is kept, and fetched once. */
static void test_kept(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":0}"), true);
        fake_run_ms(&f, 10);
        check_answer(1, "running", NULL);
        print("late\n");
        end(cell);
        fake_run_ms(&f, 3000000);
        check_no_message();
        send_line(CALL("2", "{\"wait\":5}"));
        check_answer(2, "ok", "late\n");
        check_nothing(CALL("3", "{\"wait\":5}"), 3);
        close_stopped();
}

/* A session whose code runs is not idle, even if no request waits; its result outlives it. */
static void test_idle(void)
{
        open_stopped();
        f.config->session_idle_ms = 1000;
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":1,\"timeout\":60}"), true);
        fake_run_ms(&f, 1010);
        check_answer(1, "running", NULL);
        fake_run_ms(&f, 10000);
        check_eq_int(f.kills, 0);
        end(cell);
        fake_run_ms(&f, 1100);
        check_eq_int(f.kills, 1);
        fake_end(&f, 9, 0);
        send_line(CALL("2", "{\"wait\":1}"));
        check_answer(2, "ok", NULL);
        close_stopped();
}

/* Its timeout holds, also while no request waits, and so does the end of its interpreter. */
static void test_timeout_in_background(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":1,\"timeout\":3}"), true);
        fake_run_ms(&f, 1010);
        check_answer(1, "running", NULL);
        fake_run_ms(&f, 2010);
        check_eq_int(f.interrupts, 1);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        send_line(CALL("2", "{\"wait\":5}"));
        check_answer(2, "timeout", NULL);
        fake_run_ms(&f, SESSION_SETTLE_MS);
        begin(CALL("3", "{\"code\":\"x\",\"wait\":1}"), false);
        fake_run_ms(&f, 1010);
        check_answer(3, "running", NULL);
        fake_end(&f, 9, 1);
        send_line(CALL("4", "{\"wait\":5}"));
        _cleanup_json_ yyjson_doc *dead = take_answer(4, "oom");
        check_eq_str(text_at(dead, "/result/structuredContent/state"), "lost");
        _cleanup_json_ yyjson_doc *none = NULL;
        send_line(CALL("5", "{\"wait\":5}"));
        none = take_answer(5, "error");
        check_has(text_at(none, "/result/structuredContent/error/message"),
                  "its sandbox has ended: the sandbox ran out of memory");
        close_stopped();
}

/* A result was not fetched, and other code runs: its answer has both results. */
static void test_earlier(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":1}"), true);
        print("told\n");
        fake_run_ms(&f, 1010);
        check_answer(1, "running", "told\n");
        print("untold\n");
        end(cell);
        cell = begin(CALL("2", "{\"code\":\"y\"}"), false);
        print("new\n");
        end(cell);
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "ok");
        check_eq_str(text_at(doc, STDOUT), "new\n");
        const char *earlier = text_at(doc, "/result/structuredContent/earlier");
        check_has(earlier, "status: ok");
        check_has(earlier, "untold\nvalue: 42");
        check(!strstr(earlier, "told\nuntold"));
        check_has(text_at(doc, "/result/content/0/text"), "status: ok; an earlier call has ended");
        check_has(text_at(doc, "/result/content/0/text"), "untold\nvalue: 42");
        /* Once. */
        cell = begin(CALL("3", "{\"code\":\"y\"}"), false);
        end(cell);
        _cleanup_json_ yyjson_doc *next = take_answer(3, "ok");
        check(!at(next, "/result/structuredContent/earlier"));
        check_nothing(CALL("4", "{\"wait\":1}"), 4);
        close_stopped();
}

/* It does not wait for room in the answer of a call that has begun, nor is it given to another session. */
static void test_earlier_of_another_session(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":0}"), true);
        fake_run_ms(&f, 10);
        check_answer(1, "running", NULL);
        print("secret\n");
        end(cell);
        cell = begin(CALL("2", "{\"code\":\"y\",\"session\":\"b\"}"), true);
        end(cell);
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "ok");
        check(!at(doc, "/result/structuredContent/earlier"));
        check_nothing(CALL("3", "{\"session\":\"b\"}"), 3);
        send_line(CALL("4", "{\"session\":\"default\"}"));
        check_answer(4, "ok", "secret\n");
        close_stopped();
}

/* The code ends at the moment at which the wait is over, both orders. */
static void test_boundary(void)
{
        for (int ends_first = 0; ends_first < 2; ends_first++) {
                open_stopped();
                uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":2}"), true);
                print("out\n");
                fake_run_ms(&f, 1990);
                if (!ends_first)
                        fake_clock_advance_ms(11);
                fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
                if (ends_first)
                        fake_clock_advance_ms(11);
                fake_spin(&f);
                _cleanup_json_ yyjson_doc *doc = take_message();
                bool ended = strcmp(text_at(doc, STATUS), "ok") == 0;
                check_eq_str(text_at(doc, STDOUT), "out\n");
                check_no_message();
                check(ended || !ends_first);
                if (!ended) {
                        send_line(CALL("2", "{\"wait\":2}"));
                        check_answer(2, "ok", NULL);
                }
                check_nothing(CALL("3", "{\"wait\":2}"), 3);
                close_stopped();
        }
}

/* A call that has waited 10 s behind another one is not run. */
static void test_busy(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"while True: work()\\n2\",\"timeout\":600}"),
                              true);
        print("page 1\npage 7\n\n");
        send_line(CALL("2", "{\"code\":\"y\"}"));
        send_line(CALL("3", "{\"code\":\"z\",\"wait\":15}"));
        send_line(CALL("4", "{\"code\":\"z\",\"wait\":0}"));
        fake_run_ms(&f, 10);
        yyjson_doc_free(take_answer(4, "busy"));
        fake_run_ms(&f, 9980);
        check_no_message();
        fake_run_ms(&f, 20);
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "busy");
        check_eq_str(text_at(doc, "/result/structuredContent/running/code"), "while True: work()");
        check_eq_str(text_at(doc, "/result/structuredContent/running/last_line"), "page 7");
        check_has(text_at(doc, NOTICE),
                  "nothing was run, because the session has run other code for 10 s");
        check_has(text_at(doc, "/result/content/0/text"),
                  "\nrunning: while True: work()\nlast line: page 7");
        check(yyjson_is_true(at(doc, "/result/isError")));
        fake_run_ms(&f, 5000);
        yyjson_doc_free(take_answer(3, "busy"));
        check(!fake_has_frame(&f));
        end(cell);
        check_answer(1, "ok", "page 1\npage 7\n\n");
        fake_run_ms(&f, 100);
        check(!fake_has_frame(&f)); /* none of them was run */
        close_stopped();
}

/* A sandbox that takes long is not another call. */
static void test_slow_sandbox(void)
{
        open_stopped();
        send_line(CALL("1", "{\"code\":\"x\"}"));
        send_line(CALL("2", "{\"code\":\"x\",\"session\":\"b\",\"wait\":3}"));
        send_line(CALL("3", "{\"code\":\"x\",\"session\":\"b\",\"wait\":1}"));
        fake_run_ms(&f, 1010);
        _cleanup_json_ yyjson_doc *behind = take_answer(3, "busy");
        check_has(text_at(behind, NOTICE), "other calls of the session were first");
        fake_run_ms(&f, 14000);
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "running");
        check_has(text_at(doc, NOTICE), "the code waits for its sandbox");
        check_no_message();
        close_stopped();
}

/* One that begins within its time has the rest of it. */
static void test_wait_behind(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\"}"), true);
        send_line(CALL("2", "{\"code\":\"y\",\"wait\":20}"));
        send_line(CALL("3", "{\"code\":\"y\"}"));
        fake_run_ms(&f, 9000);
        end(cell);
        yyjson_doc_free(take_answer(1, "ok"));
        cell = fake_take_exec(&f, NULL, 0);
        fake_run_ms(&f, 1100);
        yyjson_doc_free(take_answer(3, "busy"));
        fake_run_ms(&f, 9800);
        check_no_message();
        fake_run_ms(&f, 200);
        check_answer(2, "running", NULL);
        end(cell);
        close_stopped();
}

static void test_interrupt_with_code(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":1}"), true);
        fake_run_ms(&f, 1010);
        check_answer(1, "running", NULL);
        print("half\n");
        send_line(CALL("2", "{\"code\":\"y\",\"interrupt\":true}"));
        fake_spin(&f);
        check_eq_int(f.interrupts, 1);
        check(!fake_has_frame(&f)); /* first, the other one ends */
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        fake_run_ms(&f, SESSION_SETTLE_MS);
        end(fake_take_exec(&f, NULL, 0));
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "ok");
        check_has(text_at(doc, NOTICE), "the code that the session ran before was interrupted");
        const char *earlier = text_at(doc, "/result/structuredContent/earlier");
        check_has(earlier, "status: cancelled");
        check_has(earlier, "another call of the session interrupted it; variables are kept");
        check_has(earlier, "half");
        check_eq_str(text_at(doc, "/result/structuredContent/state"), "kept");
        /* Nothing runs: it is as without. */
        cell = begin(CALL("3", "{\"code\":\"y\",\"interrupt\":true}"), false);
        end(cell);
        _cleanup_json_ yyjson_doc *next = take_answer(3, "ok");
        check(!at(next, NOTICE));
        close_stopped();
}

/* A request waits for it: it gets the result, and not the later one. */
static void test_interrupt_of_a_call_that_waits(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\"}"), true);
        send_line(CALL("2", "{\"code\":\"y\",\"interrupt\":true}"));
        fake_spin(&f);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        fake_run_ms(&f, SESSION_SETTLE_MS);
        yyjson_doc_free(take_answer(1, "cancelled"));
        end(fake_take_exec(&f, NULL, 0));
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "ok");
        check(!at(doc, "/result/structuredContent/earlier"));
        close_stopped();
}

/* Code that ignores it: the sandbox is killed after the grace, and the result says what is lost. */
static void test_interrupt_ignored(void)
{
        open_stopped();
        begin(CALL("1", "{\"code\":\"x\",\"wait\":0}"), true);
        fake_run_ms(&f, 10);
        check_answer(1, "running", NULL);
        send_line(CALL("2", "{\"session\":\"default\",\"interrupt\":\"true\"}"));
        fake_run_ms(&f, 1100);
        check_eq_int(f.interrupts, 1);
        check_eq_int(f.kills, 1);
        fake_end(&f, 9, 0);
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "cancelled");
        check_has(text_at(doc, NOTICE),
                  "another call of the session interrupted it; the session's variables");
        check_eq_str(text_at(doc, "/result/structuredContent/state"), "lost");
        close_stopped();
}

/* A request that only waits ends without the code; the request that brought the code ends it, as ever. */
static void test_cancel(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":1}"), true);
        fake_run_ms(&f, 1010);
        check_answer(1, "running", NULL);
        send_line(CANCELLED("1")); /* too late */
        send_line(CALL("2", "{\"wait\":100}"));
        fake_run_ms(&f, 10);
        send_line(CANCELLED("2"));
        fake_run_ms(&f, 10);
        check_eq_int(f.interrupts, 0);
        print("on\n");
        send_line(CALL("2", "{\"wait\":0}")); /* the id is free again */
        fake_run_ms(&f, 10);
        check_answer(2, "running", "on\n");
        end(cell);
        send_line(CALL("3", "{\"wait\":0}"));
        check_answer(3, "ok", NULL);
        cell = begin(CALL("4", "{\"code\":\"x\",\"wait\":100}"), false);
        send_line(CANCELLED("4"));
        fake_run_ms(&f, 10);
        check_eq_int(f.interrupts, 1);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        check_nothing(CALL("5", "{\"wait\":1}"), 5);
        close_stopped();
}

/* The connection ends while a request of it waits. */
static void test_connection_ends(void)
{
        struct error err = {};
        struct mcp_peer *other;

        open_stopped();
        check_ok(mcp_peer_new(&other, server, NULL, &sink, &err));
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":0}"), true);
        fake_run_ms(&f, 10);
        check_answer(1, "running", NULL);
        const char *line = CALL("7", "{\"wait\":100}");
        mcp_peer_line(other, &sink, line, strlen(line));
        fake_run_ms(&f, 10);
        mcp_peer_free(other);
        fake_run_ms(&f, 10);
        check_eq_int(f.interrupts, 0);
        end(cell);
        send_line(CALL("2", "{\"wait\":1}"));
        check_answer(2, "ok", NULL);
        close_stopped();
}

/* The newest request gets the output and the result; the previous request is answered at once. */
static void test_two_wait(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\"}"), true);
        print("out\n");
        send_line(CALL("2", "{\"session\":\"default\"}"));
        fake_spin(&f);
        _cleanup_json_ yyjson_doc *doc = take_answer(1, "running");
        check(!at(doc, STDOUT));
        check_has(text_at(doc, NOTICE), "another call waits for it now");
        send_line(CALL("3", "{\"session\":\"default\"}"));
        fake_spin(&f);
        check_answer(2, "running", NULL);
        end(cell);
        check_answer(3, "ok", "out\n");
        close_stopped();
}

/* A task is there to wait: it is not cut at 10 s, unless it asks for that. */
static void test_tasks(void)
{
        open_legacy();
        fake_clock_stop(true);
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"timeout\":600}"), true);
        create(TASK_CALL("2", "{}", ""));
        fake_run_ms(&f, 30000);
        check_no_message();
        check_status("working");
        end(cell);
        yyjson_doc_free(take_answer(1, "ok"));
        cell = fake_take_exec(&f, NULL, 0);
        end(cell);
        yyjson_doc_free(take_message()); /* notifications/tasks/status */
        check_status("completed");
        /* `wait` means the same with a task. */
        create(REQUEST(
                "3", "tools/call",
                "\"name\":\"run_python\",\"arguments\":{\"code\":\"1\",\"wait\":2},\"task\":{}"));
        cell = fake_take_exec(&f, NULL, 0);
        fake_run_ms(&f, 2010);
        yyjson_doc_free(take_message());
        ask(peer, 4, "result", "");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_str(text_at(doc, STATUS), "running");
        /* A task that waits for it; its end does not end the code. */
        create(REQUEST(
                "5", "tools/call",
                "\"name\":\"run_python\",\"arguments\":{\"session\":\"default\"},\"task\":{}"));
        ask(peer, 6, "cancel", "");
        yyjson_doc_free(take_message());
        yyjson_doc_free(take_message());
        fake_run_ms(&f, 10);
        check_eq_int(f.interrupts, 0);
        end(cell);
        send_line(CALL("7", "{\"wait\":0}"));
        yyjson_doc_free(take_answer(7, "ok"));
        close_stopped();
}

static int answered;

static void on_answered(struct client_ask *unused, yyjson_val *result, const char *why)
{
        answered += result != NULL;
}

/* A modern call that asks for something is taken over: the new request gets the question. */
static void test_question(void)
{
        struct client_ask question = {.server = "s", .answered = on_answered};
        _cleanup_json_ yyjson_doc *params = NULL;
        struct error err = {};
        char line[1000];

        open_stopped();
        uint64_t cell = begin(MODERN("1", "{\"code\":\"x\",\"wait\":5}", ""), true);
        fake_send(&f, FRAME_CALL, 1, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check_ok(json_parse("{}", 2, &params, &err));
        check_ok(client_request_read(&question.request, "s", "roots/list", 10,
                                     yyjson_doc_get_root(params), &err));
        check_ok(tool_call_ask(fake_tools.calls->call, &question, &err));
        fake_run_ms(&f, 10);
        _cleanup_json_ yyjson_doc *first = take_message();
        check_eq_str(text_at(first, "/result/resultType"), "input_required");
        fake_run_ms(&f, 10000); /* no request waits: there is no wait to end */
        check_no_message();
        send_line(MODERN("2", "{\"wait\":5}", ""));
        fake_run_ms(&f, 20);
        _cleanup_json_ yyjson_doc *second = take_message();
        check_eq_str(text_at(second, "/result/resultType"), "input_required");
        snprintf(line, sizeof(line),
                 MODERN("3", "{\"wait\":5}",
                        ",\"requestState\":\"%s\",\"inputResponses\":{\"ask-1\":{\"roots\":[]}}"),
                 text_at(second, "/result/requestState"));
        send_line(line);
        check_eq_int(answered, 1);
        fake_run_ms(&f, 4900);
        check_no_message();
        fake_run_ms(&f, 200);
        check_answer(3, "running", NULL);
        /* No request waits: the client cannot be asked. */
        struct client_ask more = {.server = "s", .answered = on_answered};
        check_ok(client_request_read(&more.request, "s", "roots/list", 10,
                                     yyjson_doc_get_root(params), &err));
        check(tool_call_ask(fake_tools.calls->call, &more, &err) < 0);
        client_request_done(&more.request);
        fake_tools_answer("{\"content\":[]}");
        end(cell);
        send_line(MODERN("4", "{\"wait\":5}", ""));
        yyjson_doc_free(take_answer(4, "ok"));
        client_request_done(&question.request);
        close_stopped();
}

/* A legacy client is being asked: the wait does not end before it has answered. */
static void test_question_of_a_legacy_client(void)
{
        struct client_ask question = {.server = "s", .answered = on_answered};
        _cleanup_json_ yyjson_doc *params = NULL;
        struct error err = {};

        open_server();
        fake_clock_stop(true);
        send_line("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"roots\":{}},"
                  "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}");
        yyjson_doc_free(take_message());
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":1}"), true);
        fake_send(&f, FRAME_CALL, 1, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check_ok(json_parse("{}", 2, &params, &err));
        check_ok(client_request_read(&question.request, "s", "roots/list", 10,
                                     yyjson_doc_get_root(params), &err));
        answered = 0;
        check_ok(tool_call_ask(fake_tools.calls->call, &question, &err));
        _cleanup_json_ yyjson_doc *asked = take_message();
        check_eq_str(text_at(asked, "/method"), "roots/list");
        fake_run_ms(&f, 5000);
        check_no_message();
        char line[200];
        snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"roots\":[]}}",
                 (long long)number_at(asked, "/id"));
        send_line(line);
        check_eq_int(answered, 1);
        fake_run_ms(&f, 300);
        check_answer(1, "running", NULL);
        /* No request waits: the client cannot be asked. */
        struct client_ask more = {.server = "s", .answered = on_answered};
        check_ok(client_request_read(&more.request, "s", "roots/list", 10,
                                     yyjson_doc_get_root(params), &err));
        check(tool_call_ask(fake_tools.calls->call, &more, &err) < 0);
        fake_tools_answer("{\"content\":[]}");
        end(cell);
        send_line(CALL("2", "{\"wait\":0}"));
        yyjson_doc_free(take_answer(2, "ok"));
        client_request_done(&question.request);
        client_request_done(&more.request);
        close_stopped();
}

/* The request that waits gets the progress, which tells the time of the code. */
static void test_progress(void)
{
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":3}"), true);
        fake_run_ms(&f, 3010);
        check_answer(1, "running", NULL);
        send_line(REQUEST("2", "tools/call",
                          "\"_meta\":{\"progressToken\":\"t\"},\"name\":\"run_python\","
                          "\"arguments\":{\"session\":\"default\"}"));
        fake_run_ms(&f, 5010);
        _cleanup_json_ yyjson_doc *note = take_message();
        check_eq_str(text_at(note, "/params/progressToken"), "t");
        check_has(text_at(note, "/params/message"), "running for 8 s");
        end(cell);
        yyjson_doc_free(take_answer(2, "ok"));
        close_stopped();
}

int main(void)
{
        run(test_wait);
        run(test_kept);
        run(test_idle);
        run(test_timeout_in_background);
        run(test_earlier);
        run(test_earlier_of_another_session);
        run(test_boundary);
        run(test_busy);
        run(test_slow_sandbox);
        run(test_wait_behind);
        run(test_interrupt_with_code);
        run(test_interrupt_of_a_call_that_waits);
        run(test_interrupt_ignored);
        run(test_cancel);
        run(test_connection_ends);
        run(test_two_wait);
        run(test_tasks);
        run(test_question);
        run(test_question_of_a_legacy_client);
        run(test_progress);
        return 0;
}
