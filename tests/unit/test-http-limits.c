/* The time limits of connections and HTTP sessions, each beside a client that is a little quicker. */
#include <sys/resource.h>

#include "tests/unit/http-rig.h"

enum { SECOND = 1000 };

static void test_idle(void)
{
        open_http(NULL);
        int quiet = dial(), used = dial();
        fake_run_ms(&f, HTTP_IDLE_MS - SECOND);
        say(used, GET_HEALTH);
        check_status(used, 200);
        check(!is_over(quiet));
        fake_run_ms(&f, 2 * SECOND);
        check(is_over(quiet));
        check(!is_over(used));
        /* It counts from the end of the response. */
        fake_run_ms(&f, HTTP_IDLE_MS - 3 * SECOND);
        check(!is_over(used));
        fake_run_ms(&f, 2 * SECOND);
        check(is_over(used));
        check_eq_int(http->n_connections, 0);
        close(quiet);
        close(used);
        close_http();
}

/* A byte now and then does not give a client more time for its head. */
static void test_slow_head(void)
{
        open_http(NULL);
        int slow = dial(), quick = dial();
        fake_run_ms(&f, 5 * SECOND); /* idle: does not count */
        say(slow, "GET /healthz HTTP/1.1\r\nX: ");
        say(quick, "GET /healthz HTTP/1.1\r\n");
        for (int i = 0; i < HTTP_HEAD_MS / SECOND - 1; i++) {
                fake_run_ms(&f, SECOND);
                say(slow, "y");
        }
        say(quick, "Host: localhost\r\n\r\n");
        check_status(quick, 200);
        check(!is_over(slow));
        fake_run_ms(&f, SECOND);
        check(is_over(slow));
        check(!is_over(quick));
        close(slow);
        close(quick);
        close_http();
}

static void test_slow_body(void)
{
        open_http(NULL);
        int slow = dial(), quick = dial();
        say(slow, POST_HEAD "Content-Length: 1000\r\n\r\n");
        say(quick, POST_HEAD "Content-Length: 62\r\n\r\n");
        for (int i = 0; i < HTTP_BODY_MS / SECOND - 1; i++) {
                fake_run_ms(&f, SECOND);
                say(slow, " ");
                say(quick, " ");
        }
        say(quick, "{} ");
        check_status(quick, 400);
        check(!is_over(slow));
        fake_run_ms(&f, SECOND);
        check(is_over(slow));
        close(slow);
        close(quick);
        close_http();
}

/* The time of a head and of a body begin anew with each request of a connection. */
static void test_limits_of_each_request(void)
{
        open_http(NULL);
        int fd = dial();
        for (int i = 0; i < 4; i++) {
                say(fd, POST_HEAD "Content-Length: 2\r\n");
                fake_run_ms(&f, HTTP_HEAD_MS - SECOND);
                say(fd, "\r\n");
                fake_run_ms(&f, HTTP_BODY_MS - SECOND);
                say(fd, "{}");
                check_status(fd, 400);
        }
        close(fd);
        close_http();
}

/* After a refusal what comes is read and dropped for a while, then the connection ends. */
static void test_linger(void)
{
        open_http(NULL);
        int fd = dial();
        say(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
        check_status(fd, 400);
        fake_run_ms(&f, HTTP_LINGER_MS - 500);
        check_eq_int(send(fd, "more", 4, MSG_NOSIGNAL), 4);
        fake_spin(&f);
        check_eq_int(http->n_connections, 1);
        fake_run_ms(&f, SECOND);
        check_eq_int(http->n_connections, 0);
        check(send(fd, "more", 4, MSG_NOSIGNAL) < 0);
        close(fd);
        close_http();
}

static void test_quiet_stream(void)
{
        char id[HTTP_SESSION_ID + 1];

        open_http(NULL);
        int fd = dial();
        initialize_http(fd, "", id);
        get_stream(fd, id, NULL);
        check_has(hear(fd), "id: 0-1\n");
        fake_run_ms(&f, HTTP_TICK_MS - SECOND);
        check_eq_str(hear(fd), "");
        fake_run_ms(&f, 2 * SECOND);
        check_eq_str(hear(fd), "3\r\n:\n\n\r\n");
        /* A stream lives as long as its client reads. */
        fake_run_ms(&f, 20 * HTTP_TICK_MS);
        check(!is_over(fd));
        close(fd);
        close_http();
}

/* A call that takes long answers with a stream, although it has said nothing. */
static void test_quiet_call(void)
{
        open_http(NULL);
        int fd = dial();
        post(fd,
             "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: run_python\r\n",
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
             "\"run_python\",\"arguments\":{\"code\":\"1\"},\"_meta\":{"
             "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
             "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
        fake_start(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_run_ms(&f, HTTP_TICK_MS - SECOND);
        check_eq_str(hear(fd), "");
        fake_run_ms(&f, 2 * SECOND);
        check_has(hear(fd), "Content-Type: text/event-stream\r\n");
        fake_run_ms(&f, HTTP_TICK_MS);
        check_eq_str(hear(fd), "3\r\n:\n\n\r\n");
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_has(hear(fd), "\"resultType\":\"complete\"");
        close(fd);
        close_http();
}

static void read_bytes(int fd, size_t n)
{
        char text[4096];

        while (n > 0) {
                ssize_t got = recv(fd, text, n < sizeof(text) ? n : sizeof(text), 0);
                fake_spin(&f);
                if (got <= 0)
                        return;
                n -= (size_t)got;
        }
}

/* Bytes wait for two clients: the connection of the client that reads some of them is kept. */
static void test_slow_reader(void)
{
        static char message[64 * 1024];
        char id[2][HTTP_SESSION_ID + 1];
        int fds[2];

        open_http(NULL);
        memset(message, 'x', sizeof(message));
        message[sizeof(message) - 1] = '\n';
        for (int i = 0; i < 2; i++) {
                fds[i] = dial();
                struct http_session *session = initialize_http(fds[i], "", id[i]);
                get_stream(fds[i], id[i], NULL);
                hear(fds[i]);
                for (int k = 0; k < 40; k++)
                        notify(session, message, sizeof(message));
        }
        check_eq_int(http->n_connections, 2);
        for (int i = 0; i < 6; i++) {
                fake_run_ms(&f, HTTP_TICK_MS / 2);
                read_bytes(fds[0], 64 * 1024);
        }
        check_eq_int(http->n_connections, 1);
        check(!is_over(fds[0]));
        check(is_over(fds[1]));
        close(fds[0]);
        close(fds[1]);
        close_http();
}

static void ping(int fd, const char *id, int status)
{
        char header[64 + HTTP_SESSION_ID];

        snprintf(header, sizeof(header), "Mcp-Session-Id: %s\r\n", id);
        post(fd, header, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
        check_status(fd, status);
        close(fd);
}

/* An unused session ends; a session with requests, or whose stream is read, stays. */
static void test_sessions_expire(void)
{
        char unused[HTTP_SESSION_ID + 1], used[HTTP_SESSION_ID + 1], read[HTTP_SESSION_ID + 1];
        const int half = HTTP_SESSION_IDLE_S * SECOND / 2;

        open_http(NULL);
        int fd = dial();
        initialize_http(fd, "", unused);
        initialize_http(fd, "", used);
        initialize_http(fd, "", read);
        get_stream(fd, read, NULL);
        for (int i = 0; i < 3; i++) {
                for (int ms = 0; ms < half; ms += 10 * SECOND) {
                        fake_clock_advance_ms(10 * SECOND);
                        hear(fd);
                }
                if (i < 2) /* late enough that the third one is not after the limit */
                        ping(dial(), used, 200);
        }
        fake_run_ms(&f, 60 * SECOND);
        check_eq_int(http->n_sessions, 2);
        ping(dial(), unused, 404);
        ping(dial(), used, 200);
        check(!is_over(fd));
        close(fd);
        close_http();
}

/* All principals together: the fifth one gets a place of one who has more. */
static void test_sessions_of_all(void)
{
        struct mcp_principal principals[5] = {};
        struct http_session *read = NULL, *first = NULL;
        char id[sizeof(first->id)];

        open_http(NULL);
        for (int p = 0; p < 4; p++) {
                for (int i = 0; i < HTTP_SESSIONS_OF_ONE; i++) {
                        struct http_session *session = http_session_new(http, &principals[p]);
                        check(session);
                        read = p == 0 && i == 0 ? session : read;
                        first = p == 0 && i == 1 ? session : first;
                }
        }
        check_eq_int(http->n_sessions, HTTP_SESSIONS_MAX);
        int fd = dial();
        read->principal = &http->access.everybody;
        get_stream(fd, read->id, NULL);
        read->principal = &principals[0];
        check_has(hear(fd), "200 OK");
        strcpy(id, first->id);
        check(http_session_new(http, &principals[4]));
        check_eq_int(principals[0].n_clients, HTTP_SESSIONS_OF_ONE - 1);
        check(!http_session_find(http, &principals[0], id));
        /* Who has some gives up his own; what is read stays. */
        check(http_session_new(http, &principals[1]));
        check_eq_int(principals[1].n_clients, HTTP_SESSIONS_OF_ONE);
        check_eq_int(http->n_sessions, HTTP_SESSIONS_MAX);
        check(!is_over(fd));
        close(fd);
        while (!TAILQ_EMPTY(&http->sessions))
                http_session_free(TAILQ_FIRST(&http->sessions));
        check_eq_int(principals[4].n_clients, 0);
        close_http();
}

/* Thousands of descriptors in one process: clients and server. */
static bool can_dial_all(void)
{
        struct rlimit limit;

        check_eq_int(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = limit.rlim_max;
        check_eq_int(setrlimit(RLIMIT_NOFILE, &limit), 0);
        return limit.rlim_cur > 2 * HTTP_CONNECTIONS_MAX + 100;
}

/* Clients that have not said who they are, all places taken by them: a new one is served. */
static void test_half_requests_give_way(void)
{
        static int fds[HTTP_CONNECTIONS_MAX];

        if (!can_dial_all())
                return;
        open_http(NULL);
        for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
                fds[i] = dial();
                say(fds[i], i % 2 ? "G" : POST_HEAD);
        }
        check_eq_int(http->n_connections, HTTP_CONNECTIONS_MAX);
        int fd = dial();
        check(!is_over(fd));
        say(fd, GET_HEALTH);
        check_status(fd, 200);
        check(is_over(fds[0]));
        check(!is_over(fds[2]));
        check_eq_int(http->n_connections, HTTP_CONNECTIONS_MAX);
        /* Who has been served is idle, and the next to go. */
        int next = dial();
        check(is_over(fd));
        check(!is_over(next));
        check(!is_over(fds[2]));
        for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++)
                close(fds[i]);
        close(fd);
        close(next);
        close_http();
}

/* One principal does not get all connections. */
static void test_connections_of_one(void)
{
        static int fds[HTTP_CONNECTIONS_MAX / 2];
        static const char alice[] = "Authorization: Bearer aaaaaaaaaaaaaaaa\r\n";
        static const char bob[] = "Authorization: Bearer bbbbbbbbbbbbbbbb\r\n";
        char half[512];

        if (!can_dial_all())
                return;
        open_http("alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n");
        snprintf(half, sizeof(half), POST_HEAD "%sContent-Length: 2\r\n\r\n", alice);
        for (int i = 0; i < HTTP_CONNECTIONS_MAX / 2; i++) {
                fds[i] = dial();
                say(fds[i], half);
        }
        int fd = dial(), other = dial();
        post(fd, alice, "{}");
        check_status(fd, 503);
        post(other, bob, "{}");
        check_status(other, 400);
        check(!is_over(other));
        check(!is_over(fds[0]));
        /* When one has ended there is a place again. */
        close(fd);
        close(fds[0]);
        fd = dial();
        post(fd, alice, "{}");
        check_status(fd, 400);
        for (int i = 1; i < HTTP_CONNECTIONS_MAX / 2; i++)
                close(fds[i]);
        close(fd);
        close(other);
        close_http();
}

/* Requests of one principal that come all at once are taken in several turns of the loop, and the other one's is among the
 * first. One that waits may end. */
static void test_turns(void)
{
        static int fds[800];
        static const char alice[] = "Authorization: Bearer aaaaaaaaaaaaaaaa\r\n";
        static const char bob[] = "Authorization: Bearer bbbbbbbbbbbbbbbb\r\n";
        char text[512], answer[1024];
        size_t answered = 0, taken = 0;

        if (!can_dial_all())
                return;
        open_http("alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n");
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                fds[i] = dial();
        int other = dial();
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                ssize_t n = snprintf(text, sizeof(text), POST_HEAD "%sContent-Length: 2\r\n\r\n{}",
                                     alice);
                check_eq_int(send(fds[i], text, (size_t)n, MSG_NOSIGNAL), n);
        }
        ssize_t n = snprintf(text, sizeof(text), POST_HEAD "%sContent-Length: 2\r\n\r\n{}", bob);
        check_eq_int(send(other, text, (size_t)n, MSG_NOSIGNAL), n);
        while (recv(other, answer, sizeof(answer), 0) < 0)
                event_base_loop(f.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        check(memcmp(answer, "HTTP/1.1 400", 12) == 0);
        close(fds[ARRAY_SIZE(fds) - 1]);
        for (size_t i = 0; i + 1 < ARRAY_SIZE(fds); i++)
                answered += recv(fds[i], answer, sizeof(answer), 0) > 0;
        check(answered < ARRAY_SIZE(fds) / 2);
        for (int i = 0; i < 1000 && answered + taken < ARRAY_SIZE(fds) - 1; i++) {
                event_base_loop(f.base, EVLOOP_NONBLOCK);
                for (size_t j = 0; j + 1 < ARRAY_SIZE(fds); j++)
                        taken += recv(fds[j], answer, sizeof(answer), 0) > 0;
        }
        check_eq_int(answered + taken, ARRAY_SIZE(fds) - 1);
        check(TAILQ_EMPTY(&http->waiting));
        for (size_t i = 0; i + 1 < ARRAY_SIZE(fds); i++)
                close(fds[i]);
        close(other);
        close_http();
}

/* Two principals share the bytes: what one holds is at most what is left, and the other one's large body is taken. */
static void test_held_by_one(void)
{
        static char part[8 * 1024 * 1024];
        static const char alice[] = "Authorization: Bearer aaaaaaaaaaaaaaaa\r\n";
        static const char bob[] = "Authorization: Bearer bbbbbbbbbbbbbbbb\r\n";
        char head[512];
        int fds[16], other;
        size_t n = 0, refused = 0;

        memset(part, ' ', sizeof(part));
        for (int alone = 0; alone < 2; alone++, n = refused = 0) {
                open_http(alone ? "alice aaaaaaaaaaaaaaaa\n"
                                : "alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n");
                snprintf(head, sizeof(head), POST_HEAD "%sContent-Length: %zu\r\n\r\n", alice,
                         sizeof(part) + 1);
                for (; n < ARRAY_SIZE(fds); n++) {
                        fds[n] = dial();
                        say(fds[n], head);
                        for (size_t at = 0; at < sizeof(part); at += 32 * 1024) {
                                if (send(fds[n], part + at, 32 * 1024, MSG_NOSIGNAL) < 0)
                                        break;
                                fake_spin(&f);
                        }
                        refused += is_over(fds[n]);
                }
                check(http->held <= HTTP_HELD_MAX + ARRAY_SIZE(fds) * HTTP_HELD_SMALL);
                /* The control: alone it gets twice as much. */
                check_eq_int(n - refused, alone ? 12 : 6);
                for (other = alone ? -1 : dial(); other >= 0; other = -1) {
                        snprintf(head, sizeof(head), POST_HEAD "%sContent-Length: %d\r\n\r\n", bob,
                                 96 * 1024);
                        say(other, head);
                        for (size_t at = 0; at < 96 * 1024; at += 32 * 1024) {
                                check_eq_int(send(other, part, 32 * 1024, MSG_NOSIGNAL), 32 * 1024);
                                fake_spin(&f);
                        }
                        check_has(hear(other), "400 Bad Request");
                        close(other);
                }
                while (n > 0)
                        close(fds[--n]);
                close_http();
        }
}

/* A response to HEAD has no body: what follows is the next response. */
static void test_head(void)
{
        static const char *const refused[] = {
                "HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "HEAD /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "HEAD /healthz HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
        };

        open_http(NULL);
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                int fd = dial();
                say(fd, refused[i]);
                const char *text = hear(fd);
                check_has(text, "HTTP/1.1 40");
                check_eq_str(strstr(text, "\r\n\r\n"), "\r\n\r\n");
                close(fd);
        }
        int fd = dial();
        say(fd, "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" GET_HEALTH);
        const char *text = hear(fd);
        check_has(text, "Content-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\n");
        check_has(text, "Content-Length: 3\r\n\r\nok\n");
        close(fd);
        close_http();
}

int main(void)
{
        run(test_idle);
        run(test_slow_head);
        run(test_slow_body);
        run(test_limits_of_each_request);
        run(test_linger);
        run(test_quiet_stream);
        run(test_quiet_call);
        run(test_slow_reader);
        run(test_sessions_expire);
        run(test_sessions_of_all);
        run(test_half_requests_give_way);
        run(test_connections_of_one);
        run(test_turns);
        run(test_held_by_one);
        run(test_head);
        return 0;
}
