/* Servers over HTTP: what waits and its bounds, tokens, HTTP+SSE, what is cancelled. */
#include "tests/unit/http-client.h"

#define RESULT(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"

/* ---- bounds ---- */

static void answer_call(struct far_connection *c)
{
        char body[128];

        snprintf(body, sizeof(body), RESULT("%d"), atoi(strstr(c->body, "\"id\":") + 5));
        far_answer(c, 200, FAR_JSON, body);
}

/* Requests at the same time; one that has been answered makes room. */
static void test_requests_at_once(void)
{
        struct far_connection *first = NULL;

        client_ready(NULL);
        unsigned before = far.n_requests;
        for (int i = 0; i < HTTP_SENT_MAX + 2; i++)
                check_eq_int(client_call(100 + i), 0);
        for (int i = 0; i < HTTP_SENT_MAX; i++) {
                struct far_connection *c = far_next();
                first = first ? first : c;
        }
        far_nothing();
        check_eq_int(far.n_requests - before, HTTP_SENT_MAX);
        /* The control: a message is not a request. */
        check_eq_int(client_notify("notifications/x"), 0);
        struct far_connection *c = far_next();
        check_has(c->body, "notifications/x");
        far_answer(c, 202, "", "");
        answer_call(first);
        check_has(client_told(), "\"id\":100,");
        c = far_next();
        check_has(c->body, "\"id\":164,");
        far_nothing();
        /* So does one that is given up. */
        client.t->kind->cancel(client.t, 101, true);
        check_has(far_next()->body, "\"id\":165,");
        client_end();
}

/* Messages that the server does not answer take no more connections than requests do. */
static void test_messages_at_once(void)
{
        client_ready(NULL);
        unsigned before = far.n_requests;
        struct far_connection *first = NULL;
        for (int i = 0; i < HTTP_SENT_MAX + 2; i++)
                check_eq_int(client_notify("notifications/x"), 0);
        for (int i = 0; i < HTTP_SENT_MAX; i++) {
                struct far_connection *c = far_next();
                first = first ? first : c;
        }
        far_nothing();
        check_eq_int(far.n_requests - before, HTTP_SENT_MAX);
        /* The control: a request goes out beside them. */
        check_eq_int(client_call(5), 0);
        check_has(far_next()->body, "\"id\":5,");
        far_answer(first, 202, "", "");
        check_has(far_next()->body, "notifications/x");
        far_nothing();
        /* The others have their time. */
        fake_clock_advance_ms(HTTP_MESSAGE_MS + 1000);
        check_has(far_next()->body, "notifications/x");
        far_nothing();
        client_end();
}

/* Messages that wait, and those that are sent. */
static void test_messages_bound(void)
{
        client_open(false);
        for (int i = 0; i < HTTP_MESSAGES_MAX; i++)
                check_eq_int(client_notify("notifications/x"), 0);
        check_eq_int(client_notify("notifications/x"), -EMSGSIZE);
        check_eq_int(client.http->n_messages, HTTP_MESSAGES_MAX);
        client_give_url("/mcp");
        far_answer(far_next(), 202, "", "");
        far_until(client.http->n_messages < HTTP_MESSAGES_MAX);
        check_eq_int(client_notify("notifications/x"), 0);
        check_eq_int(client_notify("notifications/x"), -EMSGSIZE);
        client_end();
}

static void test_bodies_bound(void)
{
        const struct outgoing m = {.kind = OUTGOING_REQUEST, .id = 5, .method = "tools/call"};

        client_open(false);
        /* A single one may be longer. */
        check_eq_int(client_send(&m, NULL, HTTP_BODIES_MAX + 1000), 0);
        check_eq_int(client_send(&m, NULL, 1), -EMSGSIZE);
        client.t->kind->cancel(client.t, 5, true);
        check_eq_int(client.http->bytes, 0);
        check_eq_int(client_send(&m, NULL, HTTP_BODIES_MAX - 1000), 0);
        check_eq_int(client_send(&m, NULL, 1001), -EMSGSIZE);
        check_eq_int(client_send(&m, NULL, 1000), 0);
        check_eq_int(client.http->bytes, HTTP_BODIES_MAX);
        client_end();
}

/* A server that sends a flood is read again after a moment. */
static void test_flood(void)
{
        enum { EVENTS = 4000 };
        static char text[EVENTS * 24];
        size_t n = 0;

        client_begin();
        struct far_connection *c = client_initialize(NULL);
        client.refuses = true;
        for (int i = 0; i < EVENTS; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "event: x\ndata: %d\n\n", i);
        fake_clock_stop(true);
        far_say(c, FAR_EVENTS);
        far_write(c, text, n);
        far_turn();
        check(evtimer_pending(&client.http->listen->incoming.pause, NULL));
        for (int i = 0; i < 1 + EVENTS / 2000; i++) {
                fake_clock_advance_ms(100);
                far_turn();
        }
        check(!evtimer_pending(&client.http->listen->incoming.pause, NULL));
        fake_clock_stop(false);
        client_end();
}

/* ---- tokens ---- */

#define CHALLENGE "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n"

static void give_token(const char *token)
{
        char line[256];

        snprintf(line, sizeof(line), "{\"url\":\"%s\",\"headers\":[],\"token\":\"%s\"}",
                 far_url("/mcp"), token);
        client_access_says(line);
}

static void give_renewed(const char *token)
{
        char line[256];

        snprintf(line, sizeof(line),
                 "{\"url\":\"\",\"headers\":[],\"token\":\"%s\",\"renewed\":true}", token);
        client_access_says(line);
}

/* Two are refused: one question, and both are sent again, once. */
static void test_token(void)
{
        client_ready(NULL);
        check_eq_int(client_call(5), 0);
        check_eq_int(client_call(6), 0);
        struct far_connection *a = far_next(), *b = far_next();
        check(!strstr(a->head, "Authorization"));
        far_answer(a, 401, CHALLENGE, "");
        far_answer(b, 401, CHALLENGE, "");
        const char *asked = client_asked_access();
        check_has(asked, "{\"status\":401,\"challenge\":\"Bearer error=\\\"invalid_token\\\"\"");
        check(strchr(asked, '\n') == strrchr(asked, '\n'));
        far_nothing();
        give_token("t-one");
        a = far_next();
        b = far_next();
        check_has(a->head, "Authorization: Bearer t-one\r\n");
        check_has(b->head, "Authorization: Bearer t-one\r\n");
        answer_call(a);
        check_has(client_told(), "line ");
        far_answer(b, 401, "", "");
        check_has(client_told(), "refuses the new token too (HTTP status 401)");
        check_eq_str(client_asked_access(), "");
        far_nothing();
        client_end();
}

/* One that was sent before another token came is sent again with that. */
static void test_old_token(void)
{
        client_ready(NULL);
        check_eq_int(client_call(5), 0);
        check_eq_int(client_call(6), 0);
        struct far_connection *a = far_next(), *b = far_next();
        far_answer(a, 401, "", "");
        check_has(client_asked_access(), "401");
        give_token("t-one");
        check_has(far_next()->head, "t-one");
        far_answer(b, 401, "", "");
        b = far_next();
        check_has(b->head, "t-one");
        check_eq_str(client_asked_access(), "");
        client_end();
}

/* The token of a stream is refused when the stream is resumed: it was a good one before. */
static void test_stream_outlives_its_token(void)
{
        client_ready(NULL);
        check_eq_int(client_call(5), 0);
        far_answer(far_next(), 401, "", "");
        check_has(client_asked_access(), "401");
        give_token("t-one");
        struct far_connection *c = far_next();
        far_say(c, FAR_EVENTS "id: a\nretry: 100\n\n");
        far_turn();
        far_hang_up(c);
        far_turn();
        fake_clock_advance_ms(100);
        c = far_next();
        check_has(c->head, "t-one");
        far_answer(c, 401, "", "");
        check_has(client_asked_access(), "401");
        give_token("t-two");
        c = far_next();
        check_eq_int(strncmp(c->head, "GET ", 4), 0);
        check_has(c->head, "t-two");
        client_told_nothing();
        client_end();
}

/* As many as may be sent wait for it: they are sent again. */
static void test_all_wait_for_a_token(void)
{
        struct far_connection *all[HTTP_SENT_MAX];

        client_ready(NULL);
        for (int i = 0; i < HTTP_SENT_MAX; i++)
                check_eq_int(client_call(100 + i), 0);
        for (int i = 0; i < HTTP_SENT_MAX; i++)
                all[i] = far_next();
        for (int i = 0; i < HTTP_SENT_MAX; i++)
                far_answer(all[i], 401, "", "");
        check_has(client_asked_access(), "401");
        give_token("t-one");
        for (int i = 0; i < HTTP_SENT_MAX; i++) {
                struct far_connection *c = far_next();
                check_has(c->head, "t-one");
                answer_call(c);
                check_has(client_told(), "line ");
        }
        far_nothing();
        client_end();
}

/* A token that is renewed is used from then on. It answers no question. */
static void test_renewed_token(void)
{
        client_ready(NULL);
        give_renewed("t-one");
        check_eq_int(client_call(5), 0);
        struct far_connection *c = far_next();
        check_has(c->head, "Authorization: Bearer t-one\r\n");
        far_answer(c, 401, "", "");
        check_has(client_asked_access(), "\"tokens\":1}");
        give_renewed("t-two");
        far_nothing();
        give_token("t-three");
        check_has(far_next()->head, "Authorization: Bearer t-three\r\n");
        /* One that was sent before is sent again without a question. */
        check_eq_int(client_call(6), 0);
        c = far_next();
        give_renewed("t-four");
        far_answer(c, 401, "", "");
        check_has(far_next()->head, "Authorization: Bearer t-four\r\n");
        check_eq_str(client_asked_access(), "");
        client_end();
}

static void test_no_token(void)
{
        client_ready(NULL);
        /* 403 with a challenge asks for scopes; without one it is an answer. */
        check_eq_int(client_call(5), 0);
        far_answer(far_next(), 403, "", "");
        check_has(client_told(), "unanswered 5 answered with HTTP status 403");
        check_eq_str(client_asked_access(), "");
        check_eq_int(client_call(6), 0);
        far_answer(far_next(), 403, "WWW-Authenticate: Bearer scope=\"a\"\r\n", "");
        check_has(client_asked_access(),
                  "{\"status\":403,\"challenge\":\"Bearer scope=\\\"a\\\"\"");
        client_access_says("{\"error\":\"needs a login\"}");
        check_has(client_told(), "unanswered 6 needs a login");
        far_nothing();
        client_end();
        /* At initialize nothing continues without it. */
        client_begin();
        check_eq_int(client_request(1, "initialize", false), 0);
        far_answer(far_next(), 401, CHALLENGE, "");
        check_has(client_asked_access(), "401");
        client_access_says("{\"error\":\"needs a login\"}");
        check_has(client_told(), "failed needs a login");
        client_end();
}

/* ---- HTTP+SSE of 2024-11-05 ---- */

static struct far_connection *begin_sse(bool is_configured)
{
        struct far_connection *c;

        client_open(is_configured);
        client_give_url("/sse");
        check_eq_int(client_request(1, "initialize", false), 0);
        if (!is_configured)
                far_answer(far_next(), 405, "", "");
        c = far_next();
        check_eq_int(strncmp(c->head, "GET /sse ", 9), 0);
        far_nothing();
        return c;
}

static void test_sse(void)
{
        for (int is_configured = 0; is_configured < 2; is_configured++) {
                struct far_connection *stream = begin_sse(is_configured), *c;
                far_say(stream, FAR_EVENTS "event: endpoint\ndata: /messages?id=1\n\n");
                c = far_next();
                check_eq_int(strncmp(c->head, "POST /messages?id=1 ", 20), 0);
                far_answer(c, 202, "", "Accepted");
                far_say(stream, "data: " CLIENT_INITIALIZED "\n\n");
                check_has(client_told(), "line ");
                far_until(TAILQ_FIRST(&client.http->requests) == client.http->listen);
                /* All ends with the stream. */
                far_hang_up(stream);
                check_has(client_told(), "failed lost its event stream");
                client_end();
        }
}

static void test_sse_refused(void)
{
        static const char *const endpoints[] = {"http://localhost/x", "//localhost/x", "http://[",
                                                "https://127.0.0.1/", "javascript:1"};

        for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++) {
                struct far_connection *stream = begin_sse(false);
                far_say(stream, FAR_EVENTS "event: endpoint\ndata: ");
                far_say(stream, endpoints[i]);
                far_say(stream, "\n\n");
                check_has(client_told(), "failed names an endpoint that has another origin");
                far_nothing();
                client_end();
        }
        far_answer(begin_sse(false), 404, "", "");
        check_has(client_told(),
                  "failed refused initialize with HTTP status 405, and its url gives no");
        client_end();
        far_answer(begin_sse(true), 200, FAR_JSON, "{}");
        check_has(client_told(), "failed gives no event stream with an endpoint (HTTP+SSE)");
        client_end();
}

/* ---- the modern era, and the end ---- */

static void test_modern_headers(void)
{
        client_ready("s");
        check_eq_int(client_request(5, "tools/call", true), 0);
        struct far_connection *c = far_next();
        check_has(c->head, "MCP-Protocol-Version: 2026-07-28\r\n");
        check_has(c->head, "Mcp-Method: tools/call\r\n");
        check_has(c->head, "Mcp-Name: t\r\n");
        check_has(c->head, "Mcp-Param-Region: eu\r\n");
        check(!strstr(c->head, "Mcp-Session-Id"));
        client_end();
}

static void test_cancelled(void)
{
        client_ready(NULL);
        check_eq_int(client_request(5, "tools/call", true), 0);
        struct far_connection *c = far_next();
        check(client.t->kind->cancel(client.t, 5, true));
        far_until(c->is_over);
        /* A legacy server has to be told, unless it was not sent the request. */
        check_eq_int(client_call(6), 0);
        c = far_next();
        check(!client.t->kind->cancel(client.t, 6, false));
        far_until(c->is_over);
        check_eq_int(client_call(7), 0);
        check(client.t->kind->cancel(client.t, 7, false));
        far_nothing();
        client_told_nothing();
        client_end();
}

/* notifications/initialized is answered before anything else is sent. */
static void test_barrier(void)
{
        client_begin();
        check_eq_int(client_request(1, "initialize", false), 0);
        far_answer(far_next(), 200, FAR_JSON, CLIENT_INITIALIZED);
        check_has(client_told(), "line ");
        client.t->kind->set_version(client.t, "2025-11-25");
        check_eq_int(client_notify("notifications/initialized"), 0);
        check_eq_int(client_call(5), 0);
        struct far_connection *c = far_next();
        check_has(c->body, "notifications/initialized");
        far_nothing();
        far_answer(c, 500, "", "");
        check_has(client_told(),
                  "failed refused notifications/initialized: answered with HTTP status 500");
        client_end();
}

/* Requests of the server during a call may come in the stream, which must be open by then. */
static void test_stream_first(void)
{
        client_begin();
        struct far_connection *stream = client_initialize("one");
        check_eq_int(client_call(5), 0);
        far_nothing();
        far_say(stream, FAR_EVENTS);
        check_has(far_next()->body, "\"id\":5");
        check(!stream->is_over);
        client_end();
}

/* A server that begins its response with the first event keeps calls for HTTP_LISTEN_MS only. */
static void test_stream_without_a_head(void)
{
        client_begin();
        struct far_connection *stream = client_initialize("one");
        uint64_t before = clock_us();
        check_eq_int(client_call(5), 0);
        check_has(far_next()->body, "\"id\":5");
        check(clock_us() - before >= (HTTP_LISTEN_MS - 100) * 1000ULL);
        check(!stream->is_over);
        check_eq_int(client_call(6), 0);
        check_has(far_next()->body, "\"id\":6");
        far_say(stream, FAR_EVENTS);
        far_nothing();
        client_end();
}

/* A server that has no stream for now does not keep calls either: the GET is repeated later. */
static void test_stream_that_fails(void)
{
        client_begin();
        struct far_connection *stream = client_initialize(NULL);
        check_eq_int(client_call(5), 0);
        far_answer(stream, 500, "", "");
        check_has(far_next()->body, "\"id\":5");
        client_end();
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        run(test_requests_at_once);
        run(test_messages_at_once);
        run(test_messages_bound);
        run(test_bodies_bound);
        run(test_flood);
        run(test_token);
        run(test_old_token);
        run(test_stream_outlives_its_token);
        run(test_all_wait_for_a_token);
        run(test_renewed_token);
        run(test_no_token);
        run(test_sse);
        run(test_sse_refused);
        run(test_modern_headers);
        run(test_cancelled);
        run(test_barrier);
        run(test_stream_first);
        run(test_stream_without_a_head);
        run(test_stream_that_fails);
        return 0;
}
