/* How many tasks, requests that wait, and bytes of results a principal may have. */
#include "tests/unit/fake-tasks.h"

static void test_number(void)
{
        char oldest[64];

        open_legacy();
        for (int i = 0; i < TASKS_MAX; i++) {
                finish_one(i == 0);
                if (i == 0)
                        memcpy(oldest, id, sizeof(oldest));
        }
        send_line(TASK_CALL("2", "{}", ""));
        check_error(-32603, "2", "too many tasks");
        /* All are listed, each once. */
        char line[200], cursor[32] = "";
        size_t seen = 0;
        do {
                snprintf(line, sizeof(line), REQUEST("3", "tasks/list", "\"cursor\":\"%s\""),
                         cursor);
                send_line(line);
                _cleanup_json_ yyjson_doc *doc = take_message();
                seen += yyjson_arr_size(at(doc, "/result/tasks"));
                const char *next = text_at(doc, "/result/nextCursor");
                snprintf(cursor, sizeof(cursor), "%s", next ? next : "");
        } while (cursor[0]);
        check_eq_int(seen, TASKS_MAX);
        /* One whose result was read makes room. */
        memcpy(id, oldest, sizeof(oldest));
        ask(peer, 4, "result", "");
        yyjson_doc_free(take_message());
        create(TASK_CALL("5", "{}", ""));
        memcpy(id, oldest, sizeof(oldest));
        ask(peer, 6, "get", "");
        check_error(-32602, "6", "no such task");
        close_server();
}

/* Where no task can be made, a modern call is answered as without. */
static void test_number_modern(void)
{
        open_legacy();
        for (int i = 0; i < TASKS_MAX; i++)
                finish_one(i == 0);
        fake_clock_stop(true);
        send_line(REQUEST("1", "tools/call", WITH "," RUN));
        begin_cell(false);
        fake_run_ms(&f, 2 * TASK_AFTER_MS);
        check_no_message();
        finish_cell("{\"status\":\"ok\"}");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_str(text_at(doc, "/result/resultType"), "complete");
        fake_clock_stop(false);
        close_server();
}

static void test_waiting_requests(void)
{
        char line[300];

        open_legacy();
        create(TASK_CALL("1", "{}", ""));
        begin_cell(true);
        for (int i = 0; i < TASK_WAITERS_MAX; i++)
                ask(peer, 100 + i, "result", "");
        check_no_message();
        ask(peer, 7, "result", "");
        check_error(-32603, "7", "too many requests wait");
        ask(peer, 100, "result", "");
        check_error(-32600, "100", "in use");
        snprintf(line, sizeof(line), CANCELLED("100"));
        send_line(line);
        check_status("working");
        ask(peer, 100, "result", "");
        finish_cell("{\"status\":\"ok\"}");
        for (int i = 0; i < TASK_WAITERS_MAX; i++) {
                _cleanup_json_ yyjson_doc *doc = take_message();
                check(at(doc, "/result/content"));
        }
        yyjson_doc_free(take_message()); /* the notification */
        check_no_message();
        close_server();
}

/* Unread results fill the room; a larger result is an error, and its task fails. */
static void test_bytes(void)
{
        const size_t n = 24 * 1024 * 1024;
        struct buffer result = BUFFER_INIT(4 * n);

        open_legacy();
        struct mcp_principal *owner = peer->principal;
        for (int i = 0; i < 4; i++) {
                create(TASK_CALL("1", "{}", ""));
                struct mcp_task *task = tasks_find(owner, id);
                check(task);
                struct reply reply = {.keeper = task->reply->keeper, .task = task};
                /* The test answers before the call, which ends later. */
                buffer_consume(&result, result.length);
                check_eq_int(buffer_append_text(&result, "{\"content\":[],\"x\":\""), 0);
                check_eq_int(buffer_reserve(&result, n), 0);
                memset(buffer_tail(&result), 'x', n);
                buffer_produced(&result, n);
                check_eq_int(buffer_append_text(&result, "\",\"isError\":false}"), 0);
                reply_result(&reply, &result);
                _cleanup_json_ yyjson_doc *note = take_message();
                check_eq_str(text_at(note, "/params/status"),
                             owner->tasks.bytes && i < 2 ? "completed" : "failed");
                check(owner->tasks.bytes <= TASKS_BYTES_MAX + 4096);
        }
        ask(peer, 2, "result", "");
        check_error(-32603, "2", "the result was not kept");
        buffer_done(&result);
        close_server();
}

/* A client sends requests without end: nothing grows, whether it reads nothing or cancels each. */
static void test_ten_thousand(void)
{
        open_legacy();
        const struct tasks *tasks = &peer->principal->tasks;
        for (int i = 0; i < TASKS_MAX; i++)
                finish_one(i == 0);
        size_t bytes = tasks->bytes;
        for (int i = 0; i < 10000; i++) {
                send_line(TASK_CALL("2", "{}", ""));
                check_error(-32603, "2", "too many tasks");
        }
        check_eq_int(tasks->n, TASKS_MAX);
        check_eq_int(tasks->bytes, bytes);
        check_eq_int(server->n_calls, 0);
        close_server();

        open_legacy();
        tasks = &peer->principal->tasks;
        for (int i = 0; i < 10000; i++) {
                create(TASK_CALL("1", "{}", ""));
                ask(peer, 2, "cancel", "");
                yyjson_doc_free(take_message()); /* the notification */
                yyjson_doc_free(take_message());
                fake_spin(&f);
                check(tasks->n <= TASKS_MAX);
                check(server->n_calls <= 1);
        }
        check_eq_int(tasks->bytes, 0);
        check_no_message();
        close_server();
}

int main(void)
{
        run(test_number);
        run(test_number_modern);
        run(test_waiting_requests);
        run(test_bytes);
        run(test_ten_thousand);
        return 0;
}
