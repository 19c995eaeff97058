/* Tasks of both eras: their results, who may read them, their times, and how they end. */
#include "supervisor/service/metrics.h"
#include "tests/unit/fake-tasks.h"

static void test_asked_for(void)
{
        open_legacy();
        send_line(TASK_CALL("1", "{\"ttl\":60000}", ""));
        _cleanup_json_ yyjson_doc *made = take_message();
        check_eq_int(number_at(made, "/result/task/ttl"), 60000);
        check(number_at(made, "/result/task/pollInterval") > 0);
        check_has(text_at(made, "/result/task/createdAt"), "Z");
        snprintf(id, sizeof(id), "%s", text_at(made, "/result/task/taskId"));
        begin_cell(true);
        check_status("working");
        ask(peer, 2, "result", ""); /* waits */
        check_no_message();
        finish_cell("{\"status\":\"ok\",\"value\":{\"repr\":\"2\",\"json\":2}}");
        _cleanup_json_ yyjson_doc *result = take_message();
        check_eq_int(number_at(result, "/id"), 2);
        check_eq_str(text_at(result, "/result/content/0/text"), "value: 2");
        check_eq_str(text_at(result, "/result/_meta/io.modelcontextprotocol~1related-task/taskId"),
                     id);
        _cleanup_json_ yyjson_doc *note = take_message();
        check_eq_str(text_at(note, "/method"), "notifications/tasks/status");
        check_eq_str(text_at(note, "/params/status"), "completed");
        check_status("completed");
        ask(peer, 3, "result", ""); /* as often as one likes */
        yyjson_doc_free(take_message());
        ask(peer, 4, "cancel", "");
        check_error(-32602, "4", "ended already: its status is completed");
        send_line(REQUEST("5", "tasks/list", ""));
        _cleanup_json_ yyjson_doc *list = take_message();
        check_eq_int(yyjson_arr_size(at(list, "/result/tasks")), 1);
        check_eq_str(text_at(list, "/result/tasks/0/taskId"), id);
        close_server();
}

/* A request that can be answered at once has no task. */
static void test_errors_need_no_task(void)
{
        open_legacy();
        send_line(TASK_CALL("1", "7", ""));
        check_error(-32602, "1", "params.task must be an object");
        send_line(TASK_CALL("2", "{\"ttl\":\"long\"}", ""));
        check_error(-32602, "2", "params.task.ttl");
        send_line(REQUEST("3", "tools/call", "\"name\":\"nothing\",\"task\":{}"));
        check_error(-32602, "3", "unknown tool");
        send_line(
                REQUEST("4", "tools/call", "\"name\":\"run_python\",\"arguments\":{},\"task\":{}"));
        _cleanup_json_ yyjson_doc *doc = take_message();
        check(yyjson_is_true(at(doc, "/result/isError")));
        /* The metrics count it as the call that it was. */
        _cleanup_buffer_ struct buffer metrics = BUFFER_INIT(METRICS_BYTES_MAX);
        check_eq_int(metrics_append(METRICS_TEXT, &metrics), 0);
        check_eq_int(buffer_append(&metrics, "", 1), 0);
        check_has(
                buffer_bytes(&metrics),
                "_count{mcp_method_name=\"tools/call\",gen_ai_tool_name=\"run_python\",error_type=\"tool_error\",mcp_protocol_version=\"2025-11-25\",network_transport=\"pipe\"} 1\n");
        send_line(REQUEST("5", "tasks/list", ""));
        check_message("{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"tasks\":[]}}");
        send_line(REQUEST("6", "tasks/list", "\"cursor\":\"x\""));
        check_error(-32602, "6", "cursor");
        snprintf(id, sizeof(id), "nothing");
        ask(peer, 7, "get", "");
        check_error(-32602, "7", "no such task");
        send_line(REQUEST("8", "tasks/get", "\"taskId\":8"));
        check_error(-32602, "8", "taskId must be a string");
        send_line(REQUEST("9", "tasks/result", "\"taskId\":\"a\\u0000b\""));
        check_error(-32602, "9", "no such task");
        close_server();
}

/* A tool's error is a failure in 2025-11-25 and none in 2026-07-28. */
static void test_failed(void)
{
        open_legacy();
        create(TASK_CALL("1", "{}", ""));
        begin_cell(true);
        finish_cell(
                "{\"status\":\"error\",\"error\":{\"type\":\"ValueError\",\"message\":\"m\",\"traceback\":\"t\"}}");
        yyjson_doc_free(take_message()); /* the notification */
        check_status("failed");
        ask(peer, 2, "result", "");
        _cleanup_json_ yyjson_doc *result = take_message();
        check(yyjson_is_true(at(result, "/result/isError")));
        ask(peer, 3, "get", "," WITH);
        _cleanup_json_ yyjson_doc *modern = take_message();
        check_eq_str(text_at(modern, "/result/status"), "completed");
        check(yyjson_is_true(at(modern, "/result/result/isError")));
        close_server();
}

static void test_cancel(void)
{
        open_legacy();
        create(TASK_CALL("1", "{}", ""));
        begin_cell(true);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        ask(peer, 2, "result", "");
        ask(peer, 3, "cancel", "");
        check_error(-32600, "2", "cancelled");
        yyjson_doc_free(take_message()); /* the notification */
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_str(text_at(doc, "/result/status"), "cancelled");
        check_eq_int(f.interrupts, 1);
        ask(peer, 4, "cancel", "");
        check_error(-32602, "4", "cancelled");
        check_status("cancelled");
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_status("cancelled"); /* whatever the code makes of it */
        close_server();
}

static void test_time_to_live(void)
{
        open_legacy();
        fake_clock_stop(true);
        create(TASK_CALL("1", "{\"ttl\":1}", "")); /* less than the least */
        begin_cell(true);
        finish_cell("{\"status\":\"ok\"}");
        yyjson_doc_free(take_message());
        fake_run_ms(&f, 900);
        check_status("completed");
        fake_run_ms(&f, 200);
        ask(peer, 2, "get", "");
        check_error(-32602, "2", "no such task");
        /* A task that still works then is cancelled; a request that waits for it gets an error. */
        create(TASK_CALL("3", "{\"ttl\":2000}", ""));
        begin_cell(false);
        ask(peer, 4, "result", "");
        fake_run_ms(&f, 2100);
        check_error(-32600, "4", "cancelled");
        yyjson_doc_free(take_message()); /* the notification */
        check_eq_int(f.interrupts, 1);
        ask(peer, 5, "get", "");
        check_error(-32602, "5", "no such task");
        create(TASK_CALL("6", "{\"ttl\":1e300}", ""));
        ask(peer, 7, "get", "");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_int(number_at(doc, "/result/ttl"), TASK_TTL_MAX_MS);
        fake_clock_stop(false);
        close_server();
}

static void test_made_by_the_server(void)
{
        open_server();
        fake_clock_stop(true);
        /* Quick: no task. */
        send_line(REQUEST("1", "tools/call", WITH "," RUN));
        begin_cell(true);
        fake_run_ms(&f, TASK_AFTER_MS - 100);
        finish_cell("{\"status\":\"ok\",\"value\":{\"repr\":\"2\"}}");
        _cleanup_json_ yyjson_doc *quick = take_message();
        check_eq_str(text_at(quick, "/result/resultType"), "complete");
        check(!at(quick, "/result/taskId"));
        /* Not declared: no task, however long. */
        send_line(REQUEST("2", "tools/call", META("") "," RUN));
        begin_cell(false);
        fake_run_ms(&f, 2 * TASK_AFTER_MS);
        check_no_message();
        finish_cell("{\"status\":\"ok\"}");
        yyjson_doc_free(take_message());
        /* Slow and declared. */
        send_line(REQUEST("3", "tools/call", WITH "," RUN ",\"task\":7"));
        begin_cell(false);
        fake_run_ms(&f, TASK_AFTER_MS + 10);
        _cleanup_json_ yyjson_doc *made = take_message();
        check_eq_str(text_at(made, "/result/resultType"), "task");
        check(!at(made, "/result/task") && !at(made, "/result/result") && !at(made, "/result/ttl"));
        check(number_at(made, "/result/ttlMs") > TASK_TTL_MS &&
              number_at(made, "/result/pollIntervalMs") > 0);
        snprintf(id, sizeof(id), "%s", text_at(made, "/result/taskId"));
        finish_cell("{\"status\":\"ok\",\"value\":{\"repr\":\"3\"}}");
        check_no_message(); /* no client subscribed */
        ask(peer, 4, "get", "," WITH);
        _cleanup_json_ yyjson_doc *got = take_message();
        check_eq_str(text_at(got, "/result/resultType"), "complete");
        check_eq_str(text_at(got, "/result/status"), "completed");
        check_eq_str(text_at(got, "/result/result/content/0/text"), "value: 3");
        check(!at(got, "/result/result/_meta"));
        fake_clock_stop(false);
        close_server();
}

static void test_modern_methods(void)
{
        static const char *const methods[] = {"get", "update", "cancel"};

        open_server();
        snprintf(id, sizeof(id), "nothing");
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                ask(peer, 1, methods[i], "," META(""));
                _cleanup_json_ yyjson_doc *doc = take_message();
                check_eq_int(number_at(doc, "/error/code"), -32021);
                check(at(
                        doc,
                        "/error/data/requiredCapabilities/extensions/io.modelcontextprotocol~1tasks"));
                ask(peer, 2, methods[i], "," WITH);
                check_error(-32602, "2", "no such task");
        }
        ask(peer, 3, "result", "," WITH);
        check_error(-32601, "3", "method not found");
        ask(peer, 4, "list", "," WITH);
        check_error(-32601, "4", "method not found");
        fake_clock_stop(true);
        send_line(REQUEST("5", "tools/call", WITH "," RUN));
        begin_cell(true);
        fake_run_ms(&f, TASK_AFTER_MS + 10);
        take_created("/result");
        ask(peer, 6, "update", ",\"inputResponses\":{\"x\":{}}," WITH);
        _cleanup_json_ yyjson_doc *updated = take_message();
        check_eq_str(text_at(updated, "/result/resultType"), "complete");
        ask(peer, 7, "update", "," WITH);
        check_error(-32602, "7", "inputResponses");
        for (int i = 0; i < 2; i++) { /* twice is as good as once */
                ask(peer, 8, "cancel", "," WITH);
                _cleanup_json_ yyjson_doc *doc = take_message();
                check_eq_str(text_at(doc, "/result/resultType"), "complete");
                check(!at(doc, "/result/taskId"));
        }
        ask(peer, 9, "get", "," WITH);
        _cleanup_json_ yyjson_doc *got = take_message();
        check_eq_str(text_at(got, "/result/status"), "cancelled");
        fake_clock_stop(false);
        close_server();
}

/* Before the client has the task's id, cancelling the request ends the call without an answer. */
static void test_request_cancelled(void)
{
        open_server();
        fake_clock_stop(true);
        send_line(REQUEST("1", "tools/call", WITH "," RUN));
        begin_cell(true);
        fake_take_exec(&f, NULL, 0);
        send_line(REQUEST("1", "tools/call", WITH "," RUN));
        check_error(-32600, "1", "in use");
        send_line(CANCELLED("1"));
        check_eq_int(f.interrupts, 1);
        fake_run_ms(&f, 2 * TASK_AFTER_MS);
        check_no_message();
        fake_clock_stop(false);
        close_server();
        /* After it, the id is free, and the task continues. */
        open_legacy();
        create(TASK_CALL("1", "{}", ""));
        begin_cell(true);
        send_line(CANCELLED("1"));
        check_eq_int(f.interrupts, 0);
        create(TASK_CALL("1", "{}", ""));
        check_status("working");
        close_server();
}

/* A task outlives its peer; another one of the same principal sees it, another principal does not. */
static void test_whose_it_is(void)
{
        struct mcp_principal other = {.name = "other", .key = "other"};
        struct mcp_peer *again, *stranger;
        struct error err = {};

        open_legacy();
        check_ok(mcp_peer_new(&again, server, NULL, &sink, &err));
        check_ok(mcp_peer_new(&stranger, server, &other, &sink, &err));
        create(TASK_CALL("1", "{}", ",\"_meta\":{\"progressToken\":1}"));
        begin_cell(true);
        ask(peer, 2, "result", "");
        peer = mcp_peer_free(peer);
        check_no_message();
        for (int i = 0; i < 2; i++) {
                ask(stranger, 3, "get", "");
                check_error(-32602, "3", "no such task");
                ask(stranger, 4, "cancel", "");
                check_error(-32602, "4", "no such task");
                ask(stranger, 5, "result", "");
                check_error(-32602, "5", "no such task");
                mcp_peer_line(stranger, &sink, REQUEST("6", "tasks/list", ""),
                              strlen(REQUEST("6", "tasks/list", "")));
                check_message("{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{\"tasks\":[]}}");
                if (i == 0)
                        finish_cell("{\"status\":\"ok\",\"value\":{\"repr\":\"2\"}}");
                check_no_message(); /* no client is connected */
        }
        ask(again, 7, "result", "");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_str(text_at(doc, "/result/content/0/text"), "value: 2");
        mcp_peer_free(stranger);
        mcp_principal_done(&other);
        peer = again;
        close_server();
}

static void test_subscribed(void)
{
        char line[600];

        open_server();
        fake_clock_stop(true);
        send_line(REQUEST("1", "tools/call", WITH "," RUN));
        begin_cell(true);
        fake_run_ms(&f, TASK_AFTER_MS + 10);
        take_created("/result");
        snprintf(line, sizeof(line),
                 REQUEST("2", "subscriptions/listen",
                         META("") ",\"notifications\":{\"taskIds\":[\"%s\"]}"),
                 id);
        send_line(line);
        check_error(-32021, "2", "extension");
        send_line(
                REQUEST("2", "subscriptions/listen", WITH ",\"notifications\":{\"taskIds\":[7]}"));
        check_error(-32602, "2", "taskIds must be an array of strings");
        snprintf(line, sizeof(line),
                 REQUEST("3", "subscriptions/listen",
                         WITH ",\"notifications\":{\"taskIds\":[\"unknown\",\"%s\"]}"),
                 id);
        send_line(line);
        _cleanup_json_ yyjson_doc *acknowledged = take_message();
        check_eq_int(yyjson_arr_size(at(acknowledged, "/params/notifications/taskIds")), 1);
        finish_cell("{\"status\":\"ok\",\"value\":{\"repr\":\"2\"}}");
        _cleanup_json_ yyjson_doc *note = take_message();
        check_eq_str(text_at(note, "/method"), "notifications/tasks");
        check_eq_int(number_at(note, "/params/_meta/io.modelcontextprotocol~1subscriptionId"), 3);
        check_eq_str(text_at(note, "/params/status"), "completed");
        check_eq_str(text_at(note, "/params/result/content/0/text"), "value: 2");
        /* A task that has already ended is reported at once. */
        snprintf(line, sizeof(line),
                 REQUEST("4", "subscriptions/listen",
                         WITH ",\"notifications\":{\"taskIds\":[\"%s\"]}"),
                 id);
        send_line(line);
        yyjson_doc_free(take_message());
        _cleanup_json_ yyjson_doc *late = take_message();
        check_eq_int(number_at(late, "/params/_meta/io.modelcontextprotocol~1subscriptionId"), 4);
        check_no_message();
        fake_clock_stop(false);
        close_server();
}

/* A legacy client gets progress after the answer too, with the id of its task. */
static void test_progress(void)
{
        open_legacy();
        fake_clock_stop(true);
        create(TASK_CALL("1", "{}", ",\"_meta\":{\"progressToken\":\"t\"}"));
        begin_cell(true);
        fake_until(&f, sent.length > 0);
        _cleanup_json_ yyjson_doc *note = take_message();
        check_eq_str(text_at(note, "/method"), "notifications/progress");
        check_eq_str(text_at(note, "/params/progressToken"), "t");
        check_eq_str(text_at(note, "/params/_meta/io.modelcontextprotocol~1related-task/taskId"),
                     id);
        /* A second request with the same token creates another task. */
        create(TASK_CALL("1", "{}", ",\"_meta\":{\"progressToken\":\"t\"}"));
        fake_clock_stop(false);
        close_server();
}

/* Earlier revisions have no tasks: the member is ignored, and the methods are unknown. */
static void test_earlier_revisions(void)
{
        open_server();
        send_line(INITIALIZE("2025-06-18"));
        _cleanup_json_ yyjson_doc *doc = take_message();
        check(!at(doc, "/result/capabilities/tasks"));
        send_line(TASK_CALL("1", "{}", ""));
        check_no_message();
        begin_cell(true);
        finish_cell("{\"status\":\"ok\"}");
        _cleanup_json_ yyjson_doc *result = take_message();
        check(at(result, "/result/content"));
        send_line(REQUEST("2", "tasks/list", ""));
        check_error(-32601, "2", "method not found");
        ask(peer, 3, "get", "");
        check_error(-32601, "3", "method not found");
        send_line(REQUEST("4", "tasks/update", ""));
        check_error(-32602, "4", "_meta");
        close_server();
}

/* In a batch, the task is the answer to its element. */
static void test_in_a_batch(void)
{
        open_server(); /* without initialize, batches are taken */
        send_line("[" TASK_CALL("1", "{}", "") "," REQUEST("2", "ping", "") "]");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_int(yyjson_arr_size(yyjson_doc_get_root(doc)), 2);
        check_eq_str(text_at(doc, "/0/result/task/status"), "working");
        close_server();
}

/* Before its cell begins, and while others of the same session run; the others continue. */
static void test_cancel_in_the_queue(void)
{
        char first[64];

        open_legacy();
        create(TASK_CALL("1", "{}", ""));
        memcpy(first, id, sizeof(first));
        create(TASK_CALL("2", "{}", ""));
        ask(peer, 3, "cancel", ""); /* no sandbox yet */
        yyjson_doc_free(take_message());
        yyjson_doc_free(take_message());
        begin_cell(true);
        create(TASK_CALL("4", "{}", ""));
        ask(peer, 5, "cancel", ""); /* the first one runs */
        yyjson_doc_free(take_message());
        yyjson_doc_free(take_message());
        check_eq_int(f.interrupts, 0);
        memcpy(id, first, sizeof(first));
        check_status("working");
        finish_cell("{\"status\":\"ok\"}");
        yyjson_doc_free(take_message()); /* the notification */
        check_status("completed");
        check(!fake_has_frame(&f));
        check_eq_int(server->n_calls, 0);
        close_server();
}

/* The session ends during a task: that is its result, which outlives the session. */
static void test_session_dies(void)
{
        open_legacy();
        create(TASK_CALL("1", "{}", ""));
        begin_cell(true);
        fake_take_exec(&f, NULL, 0);
        ask(peer, 2, "result", "");
        fake_end(&f, SIGKILL, 0);
        _cleanup_json_ yyjson_doc *waited = take_message();
        check(yyjson_is_true(at(waited, "/result/isError")));
        check_eq_str(text_at(waited, "/result/structuredContent/status"), "killed");
        yyjson_doc_free(take_message()); /* the notification */
        check_status("failed");
        for (int i = 0; i < 2; i++) {
                ask(peer, 3, "result", "");
                _cleanup_json_ yyjson_doc *again = take_message();
                check_eq_str(text_at(again, "/result/structuredContent/status"), "killed");
        }
        close_server();
}

/* The server ends while tasks work, wait and are kept. */
static void test_the_end(void)
{
        open_legacy();
        finish_one(true);
        create(TASK_CALL("1", "{}", ""));
        fake_spin(&f);
        ask(peer, 2, "result", "");
        send_line(REQUEST("3", "tools/call", WITH "," RUN));
        close_server();
}

int main(void)
{
        run(test_asked_for);
        run(test_errors_need_no_task);
        run(test_failed);
        run(test_cancel);
        run(test_time_to_live);
        run(test_made_by_the_server);
        run(test_modern_methods);
        run(test_request_cancelled);
        run(test_whose_it_is);
        run(test_subscribed);
        run(test_progress);
        run(test_earlier_revisions);
        run(test_in_a_batch);
        run(test_cancel_in_the_queue);
        run(test_session_dies);
        run(test_the_end);
        return 0;
}
