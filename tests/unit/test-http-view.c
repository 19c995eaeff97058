/* Streams of the live view: who gets an event, how many streams there are, and how they end. */
#include "supervisor/http/connection.h"
#include "supervisor/http/view.h"
#include "tests/unit/http-rig.h"

#define TOKENS "alice aaaaaaaaaaaaaaaa\nops bbbbbbbbbbbbbbbb role=view\n"
#define REQUEST                                                                                    \
        "GET /ui/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer bbbbbbbbbbbbbbbb\r\n\r\n"

/* A connection to the address of --admin. */
static int dial_admin(void)
{
        int pair[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
        http_connection_new_admin(http, pair[0]);
        fake_spin(&f);
        return pair[1];
}

static size_t count_events(const char *text)
{
        size_t n = 0;

        while ((text = strstr(text, "event: state\n"))) {
                n++;
                text++;
        }
        return n;
}

static void test_each_second(void)
{
        open_http(TOKENS);
        int fd = dial_admin();
        say(fd, REQUEST);
        const char *text = hear(fd);
        check_has(text, "HTTP/1.1 200 OK\r\n");
        check_has(text, "\"places\":4,\"live\":0,\"ready\":0,\"sessions\":[]}");
        check_eq_int(count_events(text), 1);
        fake_run_ms(&f, 3 * HTTP_VIEW_MS + 100);
        check_eq_int(count_events(hear(fd)), 3);
        check_eq_int(http->n_connections, 0); /* it takes no place of a client */
        close(fd);
        fake_spin(&f);
        check_eq_int(http->n_views, 0);
        check_eq_int(http->n_admin, 0);
        close_http();
}

/* A client that has not read gets no further event, and then it is dropped. */
static void test_slow_reader(void)
{
        static char much[8 * 1024 * 1024];

        open_http(TOKENS);
        int fd = dial_admin(), quick = dial_admin();
        say(fd, REQUEST);
        say(quick, REQUEST);
        check_eq_int(count_events(hear(quick)), 1);
        http_write(http->views[0], much, sizeof(much)); /* as events that it has not read */
        fake_spin(&f);
        size_t waiting = http_waiting(http->views[0]);
        check(waiting > 0);
        fake_run_ms(&f, 5 * HTTP_VIEW_MS + 100);
        check_eq_int(http_waiting(http->views[0]), waiting);
        check_eq_int(count_events(hear(quick)), 5);
        fake_run_ms(&f, 2 * HTTP_TICK_MS);
        check_eq_int(http->n_views, 1);
        check(!is_over(quick));
        close(fd);
        close(quick);
        close_http();
}

static void test_the_oldest_ends(void)
{
        int fds[HTTP_VIEWS_MAX + 1];

        open_http(TOKENS);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                fds[i] = dial_admin();
                say(fds[i], REQUEST);
        }
        check_eq_int(http->n_views, HTTP_VIEWS_MAX);
        check_has(hear(fds[0]), "\r\n0\r\n\r\n");
        fake_run_ms(&f, HTTP_VIEW_MS + 100);
        for (size_t i = 1; i < ARRAY_SIZE(fds); i++)
                check(count_events(hear(fds[i])) > 0);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
        close_http();
}

/* The server ends while streams are open. */
static void test_the_end(void)
{
        open_http(TOKENS);
        int fd = dial_admin();
        say(fd, REQUEST);
        check_eq_int(http->n_views, 1);
        close_http();
        close(fd);
}

int main(void)
{
        run(test_each_second);
        run(test_slow_reader);
        run(test_the_oldest_ends);
        run(test_the_end);
        return 0;
}
