/* Events that are kept for clients that come back, and their limits. */
#include "tests/unit/http-rig.h"

#define MESSAGE(n) "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{\"n\":" n "}}\n"

static void notify_number(struct http_session *session, int number)
{
        char text[100];

        notify(session, text, (size_t)snprintf(text, sizeof(text), MESSAGE("%d"), number));
}

/* How many events have come; the number of the first and of the last message. */
static int count_events(const char *text, int *first, int *last)
{
        int n = 0;

        *first = *last = -1;
        for (const char *at = text; (at = strstr(at, "\"n\":")); at++) {
                *last = atoi(at + 4);
                if (n++ == 0)
                        *first = *last;
        }
        return n;
}

/* The newest STREAM_EVENTS_MAX events are kept, whether a client reads them or not. */
static void test_events_of_a_stream(void)
{
        char id[HTTP_SESSION_ID + 1];
        int first, last;

        open_http(NULL);
        int fd = dial();
        struct http_session *session = initialize_http(fd, "", id);
        get_stream(fd, id, NULL);
        check_has(hear(fd), "id: 0-1\n");
        for (int i = 2; i <= STREAM_EVENTS_MAX + 1; i++)
                notify_number(session, i);
        check_eq_int(count_events(hear(fd), &first, &last), STREAM_EVENTS_MAX);
        check_eq_int(session->main->n_events, STREAM_EVENTS_MAX);
        close(fd);
        fake_spin(&f);
        /* All sent events are kept. */
        fd = dial();
        get_stream(fd, id, "0-1");
        check_eq_int(count_events(hear(fd), &first, &last), STREAM_EVENTS_MAX);
        check_eq_int(first, 2);
        close(fd);
        fake_spin(&f);
        /* One more event removes the oldest one. */
        notify_number(session, STREAM_EVENTS_MAX + 2);
        check_eq_int(session->main->n_events, STREAM_EVENTS_MAX);
        fd = dial();
        get_stream(fd, id, "0-1");
        check_eq_int(count_events(hear(fd), &first, &last), STREAM_EVENTS_MAX);
        check_eq_int(first, 3);
        check_eq_int(last, STREAM_EVENTS_MAX + 2);
        close(fd);
        fake_spin(&f);
        /* Those behind the named one only. */
        fd = dial();
        get_stream(fd, id, "0-256");
        check_eq_int(count_events(hear(fd), &first, &last), 2);
        check_eq_int(first, 257);
        close(fd);
        close_http();
        check_eq_int(fake_tools.n_calls, 0);
}

static void test_bytes_of_a_stream(void)
{
        static char large[STREAM_BYTES_MAX / 2], larger[STREAM_BYTES_MAX + 1];
        char id[HTTP_SESSION_ID + 1];

        open_http(NULL);
        int fd = dial();
        struct http_session *session = initialize_http(fd, "", id);
        memset(large, 'x', sizeof(large));
        memset(larger, 'y', sizeof(larger));
        large[sizeof(large) - 1] = larger[sizeof(larger) - 1] = '\n';
        for (int i = 0; i < 5; i++)
                notify(session, large, sizeof(large));
        /* Each has a few bytes more as an event. */
        check_eq_int(session->main->n_events, 1);
        notify(session, large, 100);
        check_eq_int(session->main->n_events, 2);
        /* The newest is kept whatever its size. */
        notify(session, larger, sizeof(larger));
        check_eq_int(session->main->n_events, 1);
        check(session->main->event_bytes > STREAM_BYTES_MAX);
        check_eq_int(http->held, session->main->event_bytes);
        http_session_free(session);
        check_eq_int(http->held, 0);
        close(fd);
        close_http();
}

/* The bytes of all streams are limited too: then a large event is dropped, a small one kept. */
static void test_bytes_of_all(void)
{
        static char large[STREAM_BYTES_MAX];
        char id[HTTP_SESSION_ID + 1];

        open_http(NULL);
        int fd = dial();
        memset(large, 'x', sizeof(large));
        large[sizeof(large) - 1] = '\n';
        struct http_session *session = NULL;
        for (int i = 0; i < 40; i++) {
                session = initialize_http(fd, "", id);
                notify(session, large, sizeof(large));
        }
        check(http->held <= HTTP_HELD_MAX + sizeof(large) + 1024);
        check_eq_int(session->main->n_events, 0);
        notify_number(session, 1);
        check_eq_int(session->main->n_events, 1);
        check_eq_int(TAILQ_FIRST(&http->sessions)->main->n_events, 1);
        close(fd);
        close_http();
}

/* Of streams that answered POSTs the newest HTTP_SESSION_STREAMS are kept. */
static void test_streams_of_a_session(void)
{
        char id[HTTP_SESSION_ID + 1], header[64 + HTTP_SESSION_ID], event[32];

        open_http(NULL);
        int fd = dial();
        struct http_session *session = initialize_http(fd, "", id);
        snprintf(header, sizeof(header), "Mcp-Session-Id: %s\r\nAccept: text/event-stream\r\n", id);
        for (int i = 0; i < 3 * HTTP_SESSION_STREAMS; i++) {
                post(fd, header, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
                check_has(hear(fd), "\"result\":{}");
        }
        check_eq_int(session->n_streams, HTTP_SESSION_STREAMS);
        const struct http_stream *oldest = TAILQ_FIRST(&session->streams);
        snprintf(event, sizeof(event), "%d-1", (int)oldest->number);
        get_stream(fd, id, event);
        check_has(hear(fd), "\"result\":{}");
        snprintf(event, sizeof(event), "%d-1", (int)oldest->number - 1);
        get_stream(fd, id, event);
        check_status(fd, 404);
        close(fd);
        close_http();
}

static void test_event_ids(void)
{
        static const char *const wrong[] = {"",      "0",    "0-",   "-1",   "0-1-1", "a-1",
                                            "0x0-1", "+0-1", "99-1", "0 -1", "0-1 2", "1e0-1"};
        char id[HTTP_SESSION_ID + 1];

        open_http(NULL);
        int fd = dial();
        initialize_http(fd, "", id);
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                int other = dial();
                get_stream(other, id, wrong[i]);
                check_status(other, 404);
                close(other);
        }
        get_stream(fd, id, "0-0");
        check_status(fd, 200);
        close(fd);
        close_http();
}

#define CANCEL_4                                                                                   \
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"                                         \
        "cancelled\",\"params\":{\"requestId\":4}}"

/* The response of a cancelled call ends at once, although its cell has not ended: `accept` is what
 * the client takes. */
static void check_cancelled(const char *accept, const char *body, const char *expected)
{
        char id[HTTP_SESSION_ID + 1], header[128 + HTTP_SESSION_ID];

        open_http(NULL);
        int fd = dial(), other = dial();
        initialize_http(fd, "", id);
        snprintf(header, sizeof(header), "Mcp-Session-Id: %s\r\nAccept: %s\r\n", id, accept);
        post(fd, header, body);
        fake_start(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        check_eq_str(hear(fd), "");
        post(other, header, CANCEL_4);
        check_status(other, 202);
        check_has(hear(fd), expected);
        /* The connection stays usable. */
        say(fd, GET_HEALTH);
        check_status(fd, 200);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        check_eq_str(hear(fd), "");
        close(fd);
        close(other);
        close_http();
}

/* The stream is not read when its call is cancelled: a client that resumes it gets its end. */
static void test_cancelled_and_resumed(void)
{
        char id[HTTP_SESSION_ID + 1], header[128 + HTTP_SESSION_ID];

        open_http(NULL);
        int fd = dial(), other = dial();
        initialize_http(fd, "", id);
        snprintf(header, sizeof(header), "Mcp-Session-Id: %s\r\n", id);
        post(fd, header, CALL("4", "{\"code\":\"1\"}"));
        fake_start(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_run_ms(&f, HTTP_TICK_MS + 100);
        check_has(hear(fd), "id: 2-1\n"); /* that of initialize was the first */
        close(fd);
        fake_spin(&f);
        post(other, header, CANCEL_4);
        check_status(other, 202);
        fd = dial();
        get_stream(fd, id, "2-1");
        check_has(hear(fd), "\r\n0\r\n\r\n");
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        close(fd);
        close(other);
        close_http();
}

static void test_cancelled(void)
{
        check_cancelled("application/json, text/event-stream", CALL("4", "{\"code\":\"1\"}"),
                        "\r\n0\r\n\r\n");
        check_cancelled("text/event-stream", CALL("4", "{\"code\":\"1\"}"), "\r\n0\r\n\r\n");
        check_cancelled("application/json", CALL("4", "{\"code\":\"1\"}"), "HTTP/1.1 202 ");
}

int main(void)
{
        run(test_events_of_a_stream);
        run(test_bytes_of_a_stream);
        run(test_bytes_of_all);
        run(test_streams_of_a_session);
        run(test_event_ids);
        run(test_cancelled);
        run(test_cancelled_and_resumed);
        return 0;
}
