/* Messages of the helper of `cloister serve`: users of a unix socket, new tokens, and nonsense. */
#include "base/fd.h"
#include "rpc/serve-messages.h"
#include "tests/unit/http-rig.h"

#define A    "aaaaaaaaaaaaaaaa"
#define B    "bbbbbbbbbbbbbbbb"
#define AS_A "Authorization: Bearer " A "\r\n"
#define AS_B "Authorization: Bearer " B "\r\n"

static int helper; /* our end */
static int failures;

static void on_failed(void *data)
{
        check(data == &failures);
        failures++;
}

static void open_helped(const char *tokens)
{
        struct http_options options = {
                .admin_fd = -1,
                .n_fds = tokens ? 1 : 0,
                .tokens = tokens,
                .tokens_length = tokens ? strlen(tokens) : 0,
                .failed = on_failed,
                .data = &failures,
        };
        struct error err = {};
        int pair[2];

        open_server();
        if (tokens)
                options.fds[0] = http_listener();
        check_eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        helper = pair[0];
        options.helper = pair[1];
        failures = 0;
        check_ok(http_server_new(&http, f.base, server, &options, &err));
}

static void close_helped(void)
{
        close(helper);
        close_http();
}

static void tell(uint32_t kind, uint32_t uid, int fd)
{
        const struct serve_message message = {
                .kind = kind, .uid = uid, .error = {EINVAL, "the reason"}};

        check_eq_int(fd_send(helper, &message, sizeof(message), &fd, fd >= 0 ? 1 : 0, 0), 0);
        if (fd >= 0)
                close(fd);
        fake_spin(&f);
}

static void tell_tokens(const char *text)
{
        struct error err = {};
        int fd = fd_sealed("tokens", text, strlen(text), &err);

        check(fd >= 0);
        tell(SERVE_TOKENS, 0, fd);
}

/* A client of this user. */
static int client_of(uint32_t uid)
{
        int pair[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        tell(SERVE_CLIENT, uid, pair[1]);
        return pair[0];
}

static void test_users(void)
{
        char id[HTTP_SESSION_ID + 1], header[64 + HTTP_SESSION_ID];

        open_helped(NULL);
        int first = client_of(1000), second = client_of(1001), again = client_of(1000);
        initialize_http(first, "", id);
        check_eq_str(TAILQ_FIRST(&http->sessions)->principal->name, "uid-1000");
        snprintf(header, sizeof(header), "Mcp-Session-Id: %s\r\n", id);
        post(second, header, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
        check_status(second, 404);
        post(again, header, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
        check_status(again, 200);
        close(first);
        close(second);
        close(again);
        check_eq_int(failures, 0);
        close_helped();
}

static void test_too_many_users(void)
{
        open_helped(NULL);
        for (uint32_t i = 0; i < ACCESS_USERS_MAX; i++)
                close(client_of(2000 + i));
        int last = client_of(1999), known = client_of(2000);
        check(is_over(last));
        say(known, GET_HEALTH);
        check_status(known, 200);
        close(last);
        close(known);
        check_eq_int(failures, 0);
        close_helped();
}

/* Whatever else it says ends the server, once, and no descriptor stays open. */
static void test_nonsense(void)
{
        static const struct {
                uint32_t kind;
                bool with_fd;
        } wrong[] = {{0, false},
                     {0, true},
                     {SERVE_CLIENT, false},
                     {SERVE_TOKENS, false},
                     {SERVE_PROBLEM, true},
                     {SERVE_FAILED, true},
                     {SERVE_FAILED, false},
                     {SERVE_FAILED + 1, false},
                     {UINT32_MAX, false}};

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                open_helped(NULL);
                int before = dup(0);
                close(before);
                tell(wrong[i].kind, 0, wrong[i].with_fd ? dup(0) : -1);
                int after = dup(0);
                close(after);
                check_eq_int(after, before);
                check_eq_int(failures, 1);
                tell(SERVE_PROBLEM, 0, -1); /* not read any more */
                check_eq_int(failures, 1);
                close_helped();
        }
        open_helped(NULL);
        check_eq_int(send(helper, "short", 5, 0), 5);
        fake_spin(&f);
        check_eq_int(failures, 1);
        close_helped();
        open_helped(NULL);
        shutdown(helper, SHUT_RDWR);
        fake_spin(&f);
        check_eq_int(failures, 1);
        close_helped();
}

static void test_a_problem_changes_nothing(void)
{
        open_helped("alice " A "\n");
        tell(SERVE_PROBLEM, 0, -1);
        tell_tokens("alice\n");
        check_eq_int(failures, 0);
        int fd = dial();
        post(fd, AS_A, INITIALIZE("2025-11-25"));
        check_status(fd, 200);
        close(fd);
        close_helped();
}

#define MODERN_CALL                                                                                \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"            \
        "\"run_python\",\"arguments\":{\"code\":\"1\"},\"_meta\":{"                                \
        "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                              \
        "\"io.modelcontextprotocol/clientCapabilities\":{}}}}"
#define MODERN_HEAD                                                                                \
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: run_python\r\n"

/* Removing a token ends its client's connections, in each state of a connection. */
static void test_states_of_connections(void)
{
        char id[HTTP_SESSION_ID + 1], large[300 * 1024];
        int fds[6];

        open_helped("alice " A "\nbob " B "\n");
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                fds[i] = dial();
        int bob = dial();
        char bob_id[HTTP_SESSION_ID + 1];
        initialize_http(bob, AS_B, bob_id);
        /* A call, a stream of a session, half a body, a body that is being parsed, half a head, nothing. */
        post(fds[0], AS_A MODERN_HEAD, MODERN_CALL);
        fake_start(&f);
        fake_take_exec(&f, NULL, 0);
        initialize_http(fds[1], AS_A, id);
        snprintf(large, sizeof(large),
                 "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" AS_A
                 "Mcp-Session-Id: %s\r\n\r\n",
                 id);
        say(fds[1], large);
        check_has(hear(fds[1]), "id: 0-1\n");
        say(fds[2], POST_HEAD AS_A "Content-Length: 100\r\n\r\n{");
        int n = snprintf(large, sizeof(large), POST_HEAD AS_A "Content-Length: 204800\r\n\r\n");
        memset(large + n, ' ', 204800);
        const int size = 1024 * 1024;
        setsockopt(fds[3], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        check_eq_int(send(fds[3], large, (size_t)n + 204800, 0), n + 204800);
        for (int i = 0; i < 40; i++) {
                struct http_connection *c, *found = NULL;
                event_base_loop(f.base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
                TAILQ_FOREACH (c, &http->busy, link)
                        found = c->parsing ? c : found;
                if (found)
                        break;
        }
        say(fds[4], "GET /healthz HTTP/1.1\r\n");
        check_eq_int(http->n_sessions, 2);
        tell_tokens("bob " B "\n");
        check_eq_int(http->n_sessions, 1);
        for (size_t i = 0; i < 4; i++)
                check(is_over(fds[i]));
        check(!is_over(fds[4]));
        check(!is_over(fds[5]));
        check(!is_over(bob));
        say(fds[5], "GET /mcp HTTP/1.1\r\nHost: localhost\r\n" AS_A "\r\n");
        check_status(fds[5], 401);
        check_eq_int(f.kills > 0 || f.interrupts > 0, true);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
        close(bob);
        fake_spin(&f);
        check_eq_int(failures, 0);
        close_helped();
}

/* A removed token stops working even while all connections are in use. */
static void test_tokens_do_not_wait(void)
{
        open_helped("alice " A "\n");
        int fd = dial();
        http->paused = true;
        size_t n = http->n_connections;
        http->n_connections = HTTP_CONNECTIONS_MAX;
        tell_tokens("bob " B "\n");
        http->n_connections = n;
        say(fd, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n" AS_A "\r\n");
        check_status(fd, 401);
        close(fd);
        close_helped();
}

int main(void)
{
        run(test_users);
        run(test_too_many_users);
        run(test_nonsense);
        run(test_a_problem_changes_nothing);
        run(test_states_of_connections);
        run(test_tokens_do_not_wait);
        return 0;
}
