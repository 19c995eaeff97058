/* Servers over HTTP: each answer to a request, sessions, streams that are resumed. */
#include "tests/unit/http-client.h"

/* ---- one answer ---- */

#define RESULT   "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}"
#define ERROR(c) "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":" #c ",\"message\":\"no\"}}"
#define TOLD_ERROR(how, c)                                                                         \
        how " {\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":" #c ",\"message\":\"no\"}}\n"

static const struct {
        int status;
        const char *headers, *body;
        const char *told; /* its beginning */
} answers[] = {
        {200, FAR_JSON, RESULT, "line " RESULT "\n"},
        {200, "Content-Type: APPLICATION/JSON;charset=utf-8\r\n", RESULT, "line " RESULT "\n"},
        {201, FAR_JSON, RESULT, "line " RESULT "\n"},
        {200, "Content-Type: text/event-stream\r\n", "data: " RESULT "\n\n", "line " RESULT "\n"},
        {200, "Content-Type: text/event-stream\r\n",
         ": c\r\nevent: other\r\ndata: " RESULT "\r\n\r\nevent: message\r\ndata: " RESULT
         "\r\n\r\n",
         "line " RESULT "\n"},
        {200, "Content-Type: text/html\r\n", RESULT,
         "unanswered 5 answered with content type \"text/html\", not with JSON or an event stream\n"},
        {200, "", RESULT, "unanswered 5 answered with content type \"\", not with"},
        {200, "Content-Type: application/json-seq\r\n", RESULT,
         "unanswered 5 answered with content type \"application/json-seq\", not"},
        {200, FAR_JSON, "", "unanswered 5 answered, but not to the request\n"},
        {200, FAR_JSON, "not JSON",
         "line not JSON\nunanswered 5 answered, but not to the request\n"},
        {200, "Content-Type: text/event-stream\r\n", ":\n\n",
         "unanswered 5 ended its stream without the answer\n"},
        {200, "Content-Type: text/event-stream\r\n", "data: {",
         "unanswered 5 ended its stream without the answer\n"},
        {202, FAR_JSON, RESULT, "unanswered 5 accepted the request without answering it\n"},
        {202, "", "", "unanswered 5 accepted the request without answering it\n"},
        {204, "", "", "unanswered 5 accepted the request without answering it\n"},
        {400, FAR_JSON, ERROR(-32600), TOLD_ERROR("refused", -32600)},
        {404, FAR_JSON, ERROR(-32601), TOLD_ERROR("refused", -32601)},
        {500, "Content-Type: text/html\r\n", ERROR(-1), TOLD_ERROR("line", -1)},
        {503, FAR_JSON, "{\"jsonrpc\":\"2.0\",\"id\":77,\"error\":{\"code\":1,\"message\":\"no\"}}",
         TOLD_ERROR("line", 1)},
        {400, FAR_JSON, RESULT, "unanswered 5 answered with HTTP status 400\n"},
        {400, FAR_JSON, "{\"error\":1}", "unanswered 5 answered with HTTP status 400\n"},
        {404, "Content-Type: text/html\r\n", "<html>",
         "unanswered 5 answered with HTTP status 404\n"},
        {403, "", "", "unanswered 5 answered with HTTP status 403\n"},
        {429, "Retry-After: 1\r\n", "", "unanswered 5 answered with HTTP status 429\n"},
        {500, "", "", "unanswered 5 answered with HTTP status 500\n"},
        {302, "", "", "unanswered 5 answered with HTTP status 302\n"},
};

static void test_answers(void)
{
        client_ready(NULL);
        for (size_t i = 0; i < 2 * ARRAY_SIZE(answers); i++) {
                far.piece = i % 2;
                check_eq_int(client_call(5), 0);
                struct far_connection *c = far_next();
                check_has(c->head, "X-Own: 1\r\n");
                check_has(c->head, "MCP-Protocol-Version: 2025-11-25\r\n");
                check_has(c->head, "Accept: application/json, text/event-stream\r\n");
                if (answers[i / 2].status == 204)
                        far_say(c, "HTTP/1.1 204 X\r\n\r\n");
                else
                        far_answer(c, answers[i / 2].status, answers[i / 2].headers,
                                   answers[i / 2].body);
                const char *told = client_told();
                if (strncmp(told, answers[i / 2].told, strlen(answers[i / 2].told)) != 0)
                        test_fail_("row %zu: %s", i / 2, told);
                far_until(TAILQ_EMPTY(&client.http->requests));
                far_nothing();
        }
        client_end();
}

/* The body of a refusal is read up to a bound; one above it is no JSON-RPC. */
static void test_long_refusal(void)
{
        static const char before[] =
                "{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":1,\"message\":\"";
        static char body[HTTP_ERROR_MAX + 2];

        client_ready(NULL);
        for (size_t n = HTTP_ERROR_MAX; n <= HTTP_ERROR_MAX + 1; n++) {
                memset(body, 'x', n);
                memcpy(body, before, sizeof(before) - 1);
                strcpy(body + n - 3, "\"}}");
                check_eq_int(client_call(5), 0);
                far_answer(far_next(), 400, FAR_JSON, body);
                check_has(client_told(), n > HTTP_ERROR_MAX
                                                 ? "unanswered 5 answered with HTTP status 400"
                                                 : "refused {\"jsonrpc\":\"2.0\",\"id\":5,");
        }
        client_end();
}

/* The connection ends at each point of the answer: the call is not sent again. */
static void test_cut_answers(void)
{
        static const char whole[] = "HTTP/1.1 200 OK\r\n" FAR_JSON
                                    "Content-Length: 36\r\n\r\n" RESULT;
        unsigned n = 0;

        check_eq_int(strlen(RESULT), 36);
        client_ready(NULL);
        for (size_t length = 0; length < sizeof(whole) - 1; length += 5, n++) {
                check_eq_int(client_call(5), 0);
                struct far_connection *c = far_next();
                unsigned before = far.n_requests;
                far_write(c, whole, length);
                far_turn();
                far_hang_up(c);
                check_has(client_told(), "unanswered 5 http://127.0.0.1:");
                far_nothing();
                check_eq_int(far.n_requests, before);
        }
        client_end();
}

/* Before the server has answered anything, it is the server that is of no use. */
static void test_no_server(void)
{
        client_open(false);
        const char *url = far_url("/mcp");
        char line[128];
        far_close();
        snprintf(line, sizeof(line), "{\"url\":\"%s\",\"headers\":[]}", url);
        check_eq_int(client_request(1, "initialize", false), 0);
        client_access_says(line);
        check_has(client_told(), "failed cannot connect to http://127.0.0.1:");
        far_open(client.base);
        client_end();
        static const char *const entries[] = {
                "{\"url\":\"file:///etc/passwd\",\"headers\":[]}",
                "{\"url\":\"http://\",\"headers\":[]}", "{\"headers\":[]}",
                "{\"url\":\"http://a/\",\"headers\":[\"A: b\\nC: d\"]}",
                "{\"error\":\"no token\"}"};
        for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
                client_open(false);
                client_access_says(entries[i]);
                check_has(client_told(), "failed ");
                far_nothing();
                client_end();
        }
}

/* The stream of an answer continues for a moment only. */
static void test_answered_stream(void)
{
        client_ready(NULL);
        check_eq_int(client_call(5), 0);
        struct far_connection *c = far_next();
        far_say(c, FAR_EVENTS "data: " RESULT "\n\n");
        check_has(client_told(), "line ");
        fake_clock_advance_ms(HTTP_ANSWERED_MS - 300);
        far_turn();
        check(!c->is_over);
        far_say(c, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n");
        check_has(client_told(), "notifications/message");
        fake_clock_advance_ms(300);
        far_until(c->is_over);
        client_told_nothing();
        client_end();
}

/* ---- sessions ---- */

static void reopen(const char *session, const char *version)
{
        char headers[256], body[256];
        struct far_connection *c = far_next();

        check_has(c->body, "\"initialize\"");
        check(!strstr(c->head, "Mcp-Session-Id"));
        snprintf(headers, sizeof(headers), FAR_JSON "Mcp-Session-Id: %s\r\n", session);
        snprintf(body, sizeof(body),
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"%s\"}}", version);
        far_answer(c, 200, headers, body);
}

static void accept_initialized(const char *session)
{
        struct far_connection *c = far_next();

        check_has(c->body, "notifications/initialized");
        check_has(c->head, session);
        far_answer(c, 202, "", "");
}

/* Two calls run. One is refused because the session is lost, and is sent again; the other one may have
 * run. */
static void test_lost_session(void)
{
        client_ready("one");
        check_eq_int(client_call(5), 0);
        check_eq_int(client_call(6), 0);
        struct far_connection *refused = far_next(), *running = far_next(), *c;
        check_has(refused->head, "Mcp-Session-Id: one\r\n");
        bool swap = strstr(refused->body, "\"id\":6");
        far_answer(swap ? running : refused, 404, "", "no such session");
        /* Later messages wait for the new session. */
        far_until(client.http->is_reopening);
        check_eq_int(client_call(7), 0);
        reopen("two", "2025-11-25");
        accept_initialized("Mcp-Session-Id: two\r\n");
        check_has(client_told(), "reopened\n");
        far_reset(swap ? refused : running);
        check_has(client_told(), "unanswered 6 http://127.0.0.1:");
        unsigned ids[8] = {};
        for (int i = 0; i < 3; i++) {
                c = far_next();
                if (strncmp(c->head, "GET ", 4) == 0) {
                        far_answer(c, 405, "", "");
                        continue;
                }
                check_has(c->head, "Mcp-Session-Id: two\r\n");
                int id = atoi(strstr(c->body, "\"id\":") + 5);
                check(id >= 5 && id <= 7);
                ids[id]++;
                char body[64];
                snprintf(body, sizeof(body), "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{}}", id);
                far_answer(c, 200, FAR_JSON, body);
        }
        check_eq_int(ids[5], 1);
        check_eq_int(ids[6], 0);
        check_eq_int(ids[7], 1);
        far_nothing();
        client_end();
}

/* A call whose stream had begun may have run: its GET is refused, and it is not sent again. */
static void test_lost_session_of_a_stream(void)
{
        client_ready("one");
        check_eq_int(client_call(5), 0);
        struct far_connection *c = far_next();
        far_say(c, FAR_EVENTS "id: e1\nretry: 1\ndata:\n\n");
        far_turn();
        far_hang_up(c);
        far_turn();
        fake_clock_advance_ms(HTTP_RETRY_MIN_MS);
        c = far_next();
        check_has(c->head, "Last-Event-ID: e1\r\n");
        far_answer(c, 404, "", "");
        check_has(client_told(), "unanswered 5 has ended the session while the request ran");
        reopen("two", "2025-11-25");
        accept_initialized("two");
        far_answer(far_next(), 405, "", "");
        far_nothing();
        client_end();
}

static void test_session_is_lost_again(void)
{
        client_ready("one");
        check_eq_int(client_call(5), 0);
        far_answer(far_next(), 404, "", "");
        reopen("two", "2025-11-25");
        accept_initialized("two");
        check_has(client_told(), "reopened");
        struct far_connection *a = far_next(), *b = far_next();
        bool is_get = strncmp(a->head, "GET ", 4) == 0;
        far_answer(is_get ? a : b, 405, "", "");
        far_answer(is_get ? b : a, 404, "", "");
        check_has(client_told(), "unanswered 5 does not know the session that it has just begun");
        far_nothing();
        client_end();
        /* Another version than before. */
        client_ready("one");
        check_eq_int(client_call(5), 0);
        far_answer(far_next(), 404, "", "");
        reopen("two", "2025-06-18");
        check_has(client_told(),
                  "failed has ended the session, and cannot begin another: its answer");
        client_end();
        /* A 404 of a server without sessions is an answer. */
        client_ready(NULL);
        check_eq_int(client_call(5), 0);
        far_answer(far_next(), 404, "", "");
        check_has(client_told(), "unanswered 5 answered with HTTP status 404");
        far_nothing();
        client_end();
}

/* A session is lost before its first use: all other messages wait for the next session, which
 * receives notifications/initialized once. */
static void test_session_is_lost_at_once(void)
{
        client_begin();
        check_eq_int(client_request(1, "initialize", false), 0);
        far_answer(far_next(), 200, FAR_JSON "Mcp-Session-Id: one\r\n", CLIENT_INITIALIZED);
        check_has(client_told(), "line ");
        client.t->kind->set_version(client.t, "2025-11-25");
        check_eq_int(client_notify("notifications/initialized"), 0);
        check_eq_int(client_call(5), 0);
        far_answer(far_next(), 404, "", "");
        reopen("two", "2025-11-25");
        accept_initialized("two");
        check_has(client_told(), "reopened");
        for (int i = 0; i < 2; i++) {
                struct far_connection *c = far_next();
                bool is_get = strncmp(c->head, "GET ", 4) == 0;
                check(is_get || strstr(c->body, "tools/call"));
                far_answer(c, is_get ? 405 : 200, FAR_JSON, is_get ? "" : RESULT);
        }
        check_has(client_told(), "line " RESULT);
        far_nothing();
        client_end();
}

/* A session is begun again at most HTTP_REOPENS_MAX times in a minute. */
static void test_reopens_bound(void)
{
        for (int is_later = 0; is_later < 2; is_later++) {
                client_ready("s");
                for (int i = 0; i < HTTP_REOPENS_MAX; i++) {
                        check_eq_int(client_call(100 + i), 0);
                        far_answer(far_next(), 404, "", "");
                        reopen("s", "2025-11-25");
                        accept_initialized("s");
                        for (int k = 0; k < 2; k++) {
                                struct far_connection *c = far_next();
                                bool is_get = strncmp(c->head, "GET ", 4) == 0;
                                char body[64];
                                snprintf(body, sizeof(body),
                                         "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{}}", 100 + i);
                                far_answer(c, is_get ? 405 : 200, FAR_JSON, is_get ? "" : body);
                        }
                        far_until(TAILQ_EMPTY(&client.http->requests));
                }
                check(!strstr(client_told(), "failed"));
                if (is_later)
                        fake_clock_advance_ms(60000);
                check_eq_int(client_call(200), 0);
                far_answer(far_next(), 404, "", "");
                if (is_later)
                        reopen("s", "2025-11-25");
                else
                        check_has(client_told(),
                                  "failed ended its session more than 10 times in a minute");
                client_end();
        }
}

static void test_session_ends(void)
{
        client_ready("one");
        client.t->kind->close(client.t);
        struct far_connection *c = far_next();
        check_eq_int(strncmp(c->head, "DELETE /mcp ", 12), 0);
        check_has(c->head, "Mcp-Session-Id: one\r\n");
        far_answer(c, 200, "", "");
        far_turn();
        client_end();
        client_begin();
        check_eq_int(client_request(1, "initialize", false), 0);
        far_answer(far_next(), 200, FAR_JSON "Mcp-Session-Id: a b\r\n", CLIENT_INITIALIZED);
        check_has(client_told(),
                  "gave a session id that has other characters than visible ASCII, or too long");
        client_end();
}

/* ---- streams that are resumed ---- */

static void end_stream(struct far_connection *c, const char *events)
{
        far_say(c, FAR_EVENTS);
        far_say(c, events);
        far_turn();
        far_hang_up(c);
        far_turn();
}

/* No request before ms have passed, and one after. */
static struct far_connection *next_after(unsigned ms)
{
        fake_clock_stop(true);
        fake_clock_advance_ms(ms - 1);
        far_nothing();
        fake_clock_advance_ms(1);
        fake_clock_stop(false);
        return far_next();
}

static void test_resumed(void)
{
        struct far_connection *c;

        fake_clock_stop(true);
        client_ready(NULL);
        check_eq_int(client_call(5), 0);
        fake_clock_stop(true);
        end_stream(far_next(), "id: a\ndata:\n\n");
        c = next_after(HTTP_RETRY_MS);
        check_eq_int(strncmp(c->head, "GET /mcp ", 9), 0);
        check_has(c->head, "Last-Event-ID: a\r\n");
        fake_clock_stop(true);
        end_stream(c, "id: b\nretry: 200\n\n");
        c = next_after(200);
        check_has(c->head, "Last-Event-ID: b\r\n");
        fake_clock_stop(true);
        end_stream(c, "id: b\nretry: 0\n\n");
        c = next_after(HTTP_RETRY_MIN_MS);
        fake_clock_stop(true);
        end_stream(c, "id: c\nretry: 99999999\ndata:\n\n");
        c = next_after(HTTP_RETRY_MAX_MS);
        check_has(c->head, "Last-Event-ID: c\r\n");
        far_say(c, FAR_EVENTS "data: " RESULT "\n\n");
        check_has(client_told(), "line " RESULT);
        client_end();
        fake_clock_stop(false);
}

/* HTTP_RESUMES_MAX times without an event, and on if there is one. */
static void test_resumes_bound(void)
{
        for (int events = 0; events < 2; events++) {
                client_ready(NULL);
                check_eq_int(client_call(5), 0);
                end_stream(far_next(), "id: a\nretry: 1\n\n");
                for (int i = 0; i < HTTP_RESUMES_MAX + 3 * events; i++) {
                        fake_clock_advance_ms(HTTP_RETRY_MIN_MS);
                        end_stream(far_next(), events ? "data:\n\n" : ":\n");
                }
                fake_clock_advance_ms(100);
                if (events)
                        far_answer(far_next(), 405, "", "");
                check_has(client_told(),
                          events ? "unanswered 5 ended its stream before the answer, and "
                                   "refuses to resume it (HTTP status 405)"
                                 : "unanswered 5 ended its stream without the answer");
                far_nothing();
                client_end();
        }
}

static void test_not_resumed(void)
{
        client_ready(NULL);
        /* Without an id; in the modern era. */
        for (int is_modern = 0; is_modern < 2; is_modern++) {
                check_eq_int(client_request(5, "tools/call", is_modern), 0);
                end_stream(far_next(), is_modern ? "id: a\nretry: 1\n\n" : "retry: 1\ndata:\n\n");
                check_has(client_told(), "unanswered 5 ended its stream without the answer");
                fake_clock_advance_ms(2000);
                far_nothing();
        }
        client_end();
}

/* ---- the server's own stream ---- */

static void test_listens(void)
{
        static const unsigned doubled[] = {1000, 2000, 4000, 8000};
        struct far_connection *c;

        client_begin();
        c = client_initialize(NULL);
        far_say(c, FAR_EVENTS "id: 9\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n\n");
        check_has(client_told(), "\"method\":\"m\"");
        far_hang_up(c);
        far_turn();
        for (size_t i = 0; i < ARRAY_SIZE(doubled); i++) {
                fake_clock_advance_ms(doubled[i] - 500);
                far_nothing();
                fake_clock_advance_ms(500);
                c = far_next();
                check_has(c->head, "Last-Event-ID: 9\r\n");
                end_stream(c, "");
        }
        fake_clock_advance_ms(16000);
        far_answer(far_next(), 503, "", "");
        far_turn();
        fake_clock_advance_ms(32000);
        /* It is not lost by a refusal of another kind: there is none then. */
        far_answer(far_next(), 400, "", "");
        far_turn();
        fake_clock_advance_ms(120000);
        far_nothing();
        client_told_nothing();
        client_end();
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        run(test_answers);
        run(test_long_refusal);
        run(test_cut_answers);
        run(test_no_server);
        run(test_answered_stream);
        run(test_lost_session);
        run(test_lost_session_of_a_stream);
        run(test_session_is_lost_again);
        run(test_session_is_lost_at_once);
        run(test_reopens_bound);
        run(test_session_ends);
        run(test_resumed);
        run(test_resumes_bound);
        run(test_not_resumed);
        run(test_listens);
        return 0;
}
