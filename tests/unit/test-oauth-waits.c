/* How long a login waits for the browser, and a request for its answer: the bounds, and just below. */
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "supervisor/oauth/fetch.h"
#include "supervisor/oauth/listener.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

/* The clock stands still while the test waits; this thread moves it, and then says something. */
struct peer {
        pthread_t thread;
        uint64_t ms;
        uint16_t port; /* 0: accept from the listener */
        int listener, fd;
        const char *text;
};

static void *run_peer(void *data)
{
        struct peer *p = data;
        char request[4096];

        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons(p->port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        if (p->port > 0) {
                usleep(50000); /* the wait has begun */
                fake_clock_advance_ms(p->ms);
                p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                check_eq_int(connect(p->fd, (struct sockaddr *)&address, sizeof(address)), 0);
        } else {
                p->fd = accept(p->listener, NULL, NULL);
                check(recv(p->fd, request, sizeof(request), 0) > 0);
                fake_clock_advance_ms(p->ms);
        }
        (void)!send(p->fd, p->text, strlen(p->text), MSG_NOSIGNAL);
        return NULL;
}

static void start(struct peer *p)
{
        check_eq_int(pthread_create(&p->thread, NULL, run_peer, p), 0);
}

static void join(struct peer *p)
{
        pthread_join(p->thread, NULL);
        close(p->fd);
}

static void test_browser(void)
{
        for (int late = 0; late < 2; late++) {
                struct oauth_listener listener;
                struct oauth_redirect *redirect = calloc(1, sizeof(*redirect));
                struct error err = {};
                check(redirect);
                check_ok(oauth_listener_open(&listener, 0, &err));
                struct peer peer = {
                        .ms = LISTENER_WAIT_MS - !late,
                        .port = listener.port,
                        .text = "GET /callback?code=c&state=s-1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"};
                start(&peer);
                int r = oauth_listener_wait(&listener, -1, false, "s-1", redirect, &err);
                join(&peer);
                check_eq_int(r, late ? -ETIMEDOUT : 0);
                if (late)
                        check_has(err.text, "within 10 minutes");
                else
                        check_eq_str(redirect->code, "c");
                oauth_listener_close(&listener);
                free(redirect);
        }
}

static void test_request(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const struct oauth_reach reach = {.loopback = true};
        socklen_t size = sizeof(address);
        char url[64];

        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        check_eq_int(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        check_eq_int(listen(fd, 4), 0);
        check_eq_int(getsockname(fd, (struct sockaddr *)&address, &size), 0);
        snprintf(url, sizeof(url), "http://127.0.0.1:%u/token", ntohs(address.sin_port));
        const struct oauth_request request = {
                .url = url, .reach = &reach, .what = "the token endpoint"};
        for (int late = 0; late < 2; late++) {
                struct oauth_response response = {};
                struct error err = {};
                struct peer peer = {
                        .listener = fd,
                        .ms = OAUTH_REQUEST_MS - (late ? 0 : 500),
                        .text = late ? "" : "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"};
                start(&peer);
                int r = oauth_fetch(&request, &response, &err);
                join(&peer);
                check_eq_int(r, late ? -ETIMEDOUT : 0);
                if (late)
                        check_has(err.text, "the token endpoint (http://127.0.0.1:");
                else
                        check_eq_int(response.status, 200);
                oauth_response_done(&response);
        }
        close(fd);
}

int main(void)
{
        alarm(60);
        fake_clock_stop(true);
        run(test_browser);
        run(test_request);
        return 0;
}
