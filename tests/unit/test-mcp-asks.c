/* Calls of modern clients that wait for an answer, and requests to legacy clients. */

#include "rpc/client-request.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/state.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-mcp.h"

#define META                                                                                       \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
        "\"io.modelcontextprotocol/clientCapabilities\":{\"roots\":{}}}"
#define RUN(id, code, more)                                                                        \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{" META           \
        ",\"name\":\"run_python\",\"arguments\":{\"code\":\"" code "\"}" more "}}"

#define TASK_META                                                                                  \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
        "\"io.modelcontextprotocol/clientCapabilities\":{\"roots\":{},\"extensions\":{"            \
        "\"io.modelcontextprotocol/tasks\":{}}}}"

static struct {
        struct client_ask ask;
        int answered;
        char why[200];
} asked;

static char state[64];

static void on_answered(struct client_ask *ask, yyjson_val *result, const char *why)
{
        asked.answered++;
        snprintf(asked.why, sizeof(asked.why), "%s", why ? why : "");
}

/* An INPUT comes before the EXEC. */
static void finish_published(const char *result)
{
        char text[4096];
        struct frame_header header = fake_read(&f, text, sizeof(text));

        while (header.type != FRAME_EXEC)
                header = fake_read(&f, text, sizeof(text));
        fake_send(&f, FRAME_RESULT, header.id, result);
}

static void make_ask(const char *of, const char *method, const char *params)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        client_request_done(&asked.ask.request);
        asked.ask = (struct client_ask){.server = of, .answered = on_answered};
        check_ok(json_parse(params, strlen(params), &doc, &err));
        check_ok(client_request_read(&asked.ask.request, of, method, strlen(method),
                                     yyjson_doc_get_root(doc), &err));
}

/* A call whose server asks for roots, until the client has the question. */
static void begin(bool first)
{
        struct error err = {};

        asked.answered = 0;
        send_line(RUN("1", "1", ""));
        fake_spin(&f);
        if (first)
                fake_start(&f);
        fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_CALL, 1, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        make_ask("s", "roots/list", "{}");
        check_ok(tool_call_ask(fake_tools.calls->call, &asked.ask, &err));
        fake_run_ms(&f, 10);
        _cleanup_json_ yyjson_doc *doc = take_message();
        yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(doc), "result");
        check_eq_str(json_string(result, "resultType", NULL), "input_required");
        snprintf(state, sizeof(state), "%s", json_string(result, "requestState", NULL));
}

static void again(const char *id, const char *code, const char *given, const char *responses)
{
        static char line[2 * 1024 * 1024];

        snprintf(line, sizeof(line),
                 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{" META
                 ",\"name\":\"run_python\",\"arguments\":{\"code\":\"%s\"},\"requestState\":%s,"
                 "\"inputResponses\":%s}}",
                 id, code, given, responses);
        send_line(line);
}

static const char *quoted(const char *text)
{
        static char to[128];

        snprintf(to, sizeof(to), "\"%s\"", text);
        return to;
}

/* The client does not call again: the call ends after six minutes, and its state with it. */
static void test_time(void)
{
        fake_clock_stop(true);
        open_server();
        begin(true);
        fake_run_ms(&f, 6 * 60000 - 1000);
        check_eq_int(asked.answered, 0);
        check_eq_int(f.interrupts, 0);
        fake_run_ms(&f, 2000);
        check_eq_int(asked.answered, 1);
        check_eq_int(f.interrupts, 1);
        again("2", "1", quoted(state), "{\"ask-1\":{\"roots\":[]}}");
        check_error(-32602, "2", "expired");
        client_request_done(&asked.ask.request);
        close_server();
        fake_clock_stop(false);
}

/* One second before the end it is in time. */
static void test_in_time(void)
{
        fake_clock_stop(true);
        open_server();
        begin(true);
        fake_run_ms(&f, 6 * 60000 - 1000);
        again("2", "1", quoted(state), "{\"ask-1\":{\"roots\":[]}}");
        check_eq_int(asked.answered, 1);
        check_eq_str(asked.why, "");
        client_request_done(&asked.ask.request);
        close_server();
        fake_clock_stop(false);
}

static void test_forged(void)
{
        static char large[1024 * 1024 + 3];
        struct mcp_principal other = {.name = "other", .key = "other"};
        struct mcp_peer *own = peer;
        struct error err = {};
        char forged[64];

        fake_clock_stop(true);
        open_server();
        begin(true);
        for (size_t i = 0; state[i]; i++) {
                memcpy(forged, state, sizeof(forged));
                forged[i] = (char)(forged[i] == 'a' ? 'b' : 'a');
                again("3", "1", quoted(forged), "{}");
                check_error(-32602, "3", "requestState");
        }
        memset(large, 'x', sizeof(large) - 1);
        memcpy(large + 1, state, strlen(state));
        large[0] = large[sizeof(large) - 2] = '"';
        again("4", "1", large, "{}");
        check_error(-32602, "4", "requestState");
        again("5", "2", quoted(state), "{}");
        check_error(-32602, "5", "other arguments");
        own = peer;
        check_ok(mcp_peer_new(&peer, server, &other, &sink, &err));
        again("6", "1", quoted(state), "{}");
        check_error(-32602, "6", "requestState");
        mcp_peer_free(peer);
        peer = own;
        /* Answers of no form, to what was not asked, and none at all: the question comes again. */
        static const char *const responses[] = {"{}",   "{\"ask-2\":{}}", "[]",   "7",
                                                "null", "{\"ask-\":{}}",  "\"x\""};
        for (size_t i = 0; i < ARRAY_SIZE(responses); i++) {
                again("7", "1", quoted(state), responses[i]);
                check_eq_int(asked.answered, 0);
                fake_run_ms(&f, 10);
                _cleanup_json_ yyjson_doc *doc = take_message();
                yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(doc), "result");
                check(json_string(result, "requestState", NULL));
                snprintf(state, sizeof(state), "%s", json_string(result, "requestState", NULL));
        }
        again("8", "1", quoted(state), "{\"ask-1\":{\"roots\":[]}}");
        check_eq_int(asked.answered, 1);
        client_request_done(&asked.ask.request);
        close_server();
        mcp_principal_done(&other);
        fake_clock_stop(false);
}

/* A client that answers nothing, again and again. */
static void test_rounds(void)
{
        fake_clock_stop(true);
        open_server();
        begin(true);
        int rounds = 1;
        while (asked.answered == 0) {
                again("2", "1", quoted(state), "{}");
                fake_run_ms(&f, 10);
                if (asked.answered > 0)
                        break;
                rounds++;
                _cleanup_json_ yyjson_doc *doc = take_message();
                yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(doc), "result");
                snprintf(state, sizeof(state), "%s", json_string(result, "requestState", NULL));
        }
        check_eq_int(rounds, 64);
        check_has(asked.why, "too much");
        client_request_done(&asked.ask.request);
        close_server();
        fake_clock_stop(false);
}

/* A task whose code asks two questions; one answer that does not fit ends it, and the next is dropped. */
static void test_answers_of_a_task(void)
{
        static const char requests[] =
                "{\"status\":\"ok\",\"requests\":{\"a\":{\"method\":\"roots/list\"},\"b\":{"
                "\"method\":\"roots/list\"}}}";
        static const char *const answers[] = {
                "{\"ask-1\":{\"roots\":5},\"ask-2\":{\"roots\":[]}}",
                "{\"ask-2\":{\"roots\":5},\"ask-1\":{\"roots\":5},\"ask-3\":{}}",
                "{\"ask-1\":{\"roots\":[]},\"ask-2\":{\"roots\":7}}",
        };
        struct config *config = fake_config(
                "{\"publish\":{\"tools\":{\"two\":{\"description\":\"x\",\"code\":\"1\"}}}}");
        char line[800], id[64];

        for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
                fake_clock_stop(true);
                open_server();
                mcp_server_set_config(server, config);
                send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                          "call\",\"params\":{" TASK_META ",\"name\":\"two\"}}");
                fake_spin(&f);
                fake_start(&f);
                fake_run_ms(&f, 600);
                _cleanup_json_ yyjson_doc *doc = take_message();
                yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(doc), "result");
                snprintf(id, sizeof(id), "%s", json_string(result, "taskId", NULL));
                finish_published(requests);
                snprintf(
                        line, sizeof(line),
                        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tasks/update\",\"params\":{" TASK_META
                        ",\"taskId\":\"%s\",\"inputResponses\":%s}}",
                        id, answers[i]);
                send_line(line);
                yyjson_doc_free(take_message());
                snprintf(
                        line, sizeof(line),
                        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tasks/get\",\"params\":{" TASK_META
                        ",\"taskId\":\"%s\"}}",
                        id);
                send_line(line);
                _cleanup_json_ yyjson_doc *got = take_message();
                result = yyjson_obj_get(yyjson_doc_get_root(got), "result");
                check_eq_str(json_string(result, "status", NULL), "completed");
                check(yyjson_is_true(yyjson_ptr_get(result, "/result/isError")));
                close_server();
                fake_clock_stop(false);
        }
        config_free(config);
}

int main(void)
{
        run(test_time);
        run(test_in_time);
        run(test_forged);
        run(test_rounds);
        run(test_answers_of_a_task);
        return 0;
}
