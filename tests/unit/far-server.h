/*
 * An HTTP server inside a test, in the test's event loop: the test reads each request as bytes and writes
 * the bytes of the answer.
 *
 *     far_open(base);
 *     … the code under test sends a request to far_url("/mcp") …
 *     struct far_connection *c = far_next();      waits for a whole request: c->head, c->body
 *     far_say(c, "HTTP/1.1 200 OK\r\n…");
 *
 * Each wait runs the loop; one that takes a minute fails the test.
 */
#pragma once

#include <arpa/inet.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tests/unit/test.h"

enum { FAR_CONNECTIONS = 256 };

struct far_connection {
        int fd;       /* -1: closed by the test, or a free slot */
        bool is_over; /* closed by the client */
        unsigned
                request; /* the number of a whole one, which far_next() has not returned yet; 0: none */
        struct event event;
        struct buffer in;
        char *head, *body; /* of the request that far_next() returned */
        size_t n;
};

static struct far {
        struct event_base *base;
        int fd;
        struct event event;
        uint16_t port;
        struct far_connection connections[FAR_CONNECTIONS];
        unsigned n_connections, n_requests; /* in all; requests: whole ones that were received */
        size_t piece; /* bytes of a write, between turns of the loop; 0: all at once */
} far;

/* The length of the first request, 0: it is not whole. */
static inline size_t far_whole(const struct far_connection *c, size_t *head)
{
        const char *text = buffer_bytes(&c->in);
        const char *end = c->in.length > 0 ? memmem(text, c->in.length, "\r\n\r\n", 4) : NULL;
        size_t n = 0;

        if (!end)
                return 0;
        *head = (size_t)(end - text) + 4;
        const char *length = memmem(text, *head, "Content-Length: ", 16);
        if (length)
                n = strtoul(length + 16, NULL, 10);
        return c->in.length < *head + n ? 0 : *head + n;
}

static inline void far_on_bytes(evutil_socket_t fd, short what, void *data)
{
        struct far_connection *c = data;
        size_t head;

        (void)what;
        ssize_t n = buffer_read_fd(&c->in, fd, 1 << 20);
        if (n == -EAGAIN)
                return;
        if (n <= 0) {
                c->is_over = true;
                event_del(&c->event);
        } else if (c->request == 0 && far_whole(c, &head) > 0) {
                c->request = ++far.n_requests;
        }
}

static inline void far_on_connection(evutil_socket_t listener, short what, void *data)
{
        const int on = 1;

        (void)what;
        (void)data;
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
                return;
        check(far.n_connections < FAR_CONNECTIONS);
        struct far_connection *c = &far.connections[far.n_connections++];
        *c = (struct far_connection){.fd = fd};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        buffer_init(&c->in, 256 << 20);
        event_assign(&c->event, far.base, fd, EV_READ | EV_PERSIST, far_on_bytes, c);
        event_add(&c->event, NULL);
}

static inline void far_open(struct event_base *base)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof(address);

        far = (struct far){.base = base};
        far.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        check(far.fd >= 0);
        check_eq_int(bind(far.fd, (struct sockaddr *)&address, sizeof(address)), 0);
        check_eq_int(listen(far.fd, FAR_CONNECTIONS), 0);
        check_eq_int(getsockname(far.fd, (struct sockaddr *)&address, &n), 0);
        far.port = ntohs(address.sin_port);
        event_assign(&far.event, base, far.fd, EV_READ | EV_PERSIST, far_on_connection, NULL);
        event_add(&far.event, NULL);
}

static inline void far_hang_up(struct far_connection *c)
{
        if (c->fd < 0)
                return;
        event_del(&c->event);
        close(c->fd);
        c->fd = -1;
}

/* With a reset, so that the other side knows that bytes are lost. */
static inline void far_reset(struct far_connection *c)
{
        const struct linger at_once = {.l_onoff = 1};

        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        far_hang_up(c);
}

static inline void far_close(void)
{
        for (unsigned i = 0; i < far.n_connections; i++) {
                far_hang_up(&far.connections[i]);
                buffer_done(&far.connections[i].in);
                free(far.connections[i].head);
                free(far.connections[i].body);
        }
        event_del(&far.event);
        close(far.fd);
}

/* Valid until the fourth call after it. */
static inline const char *far_url(const char *path)
{
        static char urls[4][256];
        static unsigned n;
        char *url = urls[n++ % 4];

        snprintf(url, sizeof(urls[0]), "http://127.0.0.1:%u%s", far.port, path);
        return url;
}

/* Handles what is ready, again and again until nothing is. */
static inline void far_turn(void)
{
        for (int i = 0; i < 8; i++)
                event_base_loop(far.base, EVLOOP_NONBLOCK);
}

/* Runs the loop until the condition holds. */
#define far_until(condition)                                                                       \
        do {                                                                                       \
                alarm(60);                                                                         \
                while (!(condition))                                                               \
                        event_base_loop(far.base, EVLOOP_ONCE);                                    \
                alarm(0);                                                                          \
        } while (0)

static inline struct far_connection *far_waiting(void)
{
        struct far_connection *first = NULL;

        for (unsigned i = 0; i < far.n_connections; i++) {
                struct far_connection *c = &far.connections[i];
                if (c->request > 0 && (!first || c->request < first->request))
                        first = c;
        }
        return first;
}

/* The next whole request. */
static inline struct far_connection *far_next(void)
{
        struct far_connection *c;
        size_t head = 0;

        far_until(c = far_waiting());
        size_t n = far_whole(c, &head);
        free(c->head);
        free(c->body);
        c->head = strndup(buffer_bytes(&c->in), head);
        c->n = n - head;
        c->body = strndup(buffer_bytes(&c->in) + head, c->n);
        check(c->head && c->body);
        buffer_consume(&c->in, n);
        c->request = far_whole(c, &head) > 0 ? ++far.n_requests : 0;
        return c;
}

/* No request comes, whatever the loop still does. */
static inline void far_nothing(void)
{
        far_turn();
        struct far_connection *c = far_waiting();
        if (c)
                test_fail_("there is a request: %.*s", (int)c->in.length, buffer_bytes(&c->in));
}

/* Writes, while the loop runs. */
static inline void far_write(struct far_connection *c, const char *bytes, size_t n)
{
        size_t at = 0;

        alarm(60);
        while (at < n && !c->is_over) {
                size_t rest = n - at, most = far.piece && far.piece < rest ? far.piece : rest;
                ssize_t wrote = send(c->fd, bytes + at, most, MSG_NOSIGNAL);
                if (wrote < 0 && errno != EAGAIN)
                        break;
                at += wrote > 0 ? (size_t)wrote : 0;
                if (at < n)
                        event_base_loop(far.base, wrote > 0 ? EVLOOP_NONBLOCK : EVLOOP_ONCE);
        }
        alarm(0);
}

static inline void far_say(struct far_connection *c, const char *text)
{
        far_write(c, text, strlen(text));
}

/* A whole response, on a connection that stays. headers: whole lines. */
static inline void far_answer(struct far_connection *c, int status, const char *headers,
                              const char *body)
{
        char *text = NULL;

        check(asprintf(&text, "HTTP/1.1 %d X\r\n%sContent-Length: %zu\r\n\r\n%s", status, headers,
                       strlen(body), body) > 0);
        far_say(c, text);
        free(text);
}

#define FAR_JSON   "Content-Type: application/json\r\n"
#define FAR_EVENTS "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
