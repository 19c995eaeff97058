/* The loopback end of a login. */
#include "supervisor/oauth/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { READ_AT_ONCE = 4096, READS_MAX = 16 };

static const char callback[] = "/callback";

struct connection {
        int fd; /* -1: a free slot */
        uint64_t since;
        struct http_reader reader;
};

struct wait {
        struct oauth_listener *listener;
        const char *state;
        int input; /* -1: closed */
        bool must_paste;
        struct buffer line;
        struct connection connections[LISTENER_CONNECTIONS];
        struct oauth_redirect *ret;
        bool done;
};

int oauth_listener_open(struct oauth_listener *listener, uint16_t port, struct error *err)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons(port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof(address);
        const int on = 1;

        *listener = (struct oauth_listener){.fd = -1};
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "listen on 127.0.0.1");
        /* The next login uses the same port, while connections of this one are in TIME_WAIT. No other
         * socket can share it once it listens: that would need SO_REUSEPORT on both. */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            listen(fd, LISTENER_CONNECTIONS) < 0 ||
            getsockname(fd, (struct sockaddr *)&address, &n) < 0)
                return error_set(
                        err, errno,
                        "listen on 127.0.0.1:%u: %s; end the program that uses the port, or set another redirect_port (an authorization server that knows the client's redirect URI has to know the new one)",
                        port, strerror(errno));
        listener->port = ntohs(address.sin_port);
        snprintf(listener->uri, sizeof(listener->uri), "http://127.0.0.1:%u%s", listener->port,
                 callback);
        listener->fd = take_fd(fd);
        return 0;
}

void oauth_listener_close(struct oauth_listener *listener)
{
        if (listener->fd >= 0)
                close(take_fd(listener->fd));
}

void oauth_listener_expect(struct http_reader *reader)
{
        http_reader_init(reader, 0);
        reader->target_max = HTTP_HEAD_MAX;
}

const char *oauth_request_query(const struct http_reader *reader)
{
        const struct http_request *request = &reader->request;

        return request->method == HTTP_METHOD_GET && strcmp(request->path, callback) == 0
                       ? request->query
                       : NULL;
}

const char *oauth_pasted_query(const char *text, size_t n, size_t *length)
{
        const char *mark = memchr(text, '?', n);
        const char *from = mark ? mark + 1 : text;
        size_t rest = n - (size_t)(from - text);
        const char *fragment = memchr(from, '#', rest);

        while (rest > 0 && (from[rest - 1] == '\r' || from[rest - 1] == ' '))
                rest--;
        *length = fragment ? (size_t)(fragment - from) : rest;
        return from;
}

/* Takes a query if it carries the state. */
static bool take(struct wait *w, const char *query, size_t n)
{
        static struct oauth_redirect found;
        size_t length = strlen(w->state);

        if (!query || oauth_parse_redirect(query, n, &found, NULL) < 0 ||
            strlen(found.state) != length || CRYPTO_memcmp(found.state, w->state, length) != 0)
                return false;
        *w->ret = found;
        explicit_bzero(&found, sizeof(found));
        w->done = true;
        return true;
}

static void reply(int fd, const char *status, const char *text)
{
        char answer[512];

        int n = snprintf(answer, sizeof(answer),
                         "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                         "Content-Length: %zu\r\nCache-Control: no-store\r\n"
                         "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
                         "Connection: close\r\n\r\n%s",
                         status, strlen(text), text);
        (void)!send(fd, answer, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void drop(struct connection *c)
{
        if (c->fd >= 0)
                close(take_fd(c->fd));
        http_reader_done(&c->reader);
}

static void finish(struct wait *w, struct connection *c)
{
        const char *query = oauth_request_query(&c->reader);

        if (take(w, query, query ? strlen(query) : 0))
                reply(c->fd, "200 OK",
                      "Cloister has the answer. Return to the terminal; this page can be closed.\n");
        else if (query)
                reply(c->fd, "400 Bad Request",
                      "This page does not belong to the login in progress.\n");
        else
                reply(c->fd, "404 Not Found", "This page does not exist.\n");
        drop(c);
}

/* Reads what has arrived, because a socket that is closed with unread bytes loses the answer. */
static void refuse(struct connection *c)
{
        char bytes[READ_AT_ONCE];

        reply(c->fd, "400 Bad Request", "This request cannot be read.\n");
        for (int i = 0; i < READS_MAX && recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
                ;
        drop(c);
}

static void on_data(struct wait *w, struct connection *c)
{
        char bytes[READ_AT_ONCE];
        struct error ignored = {};
        ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
                return;
        if (n <= 0)
                drop(c);
        else if (http_reader_feed(&c->reader, bytes, (size_t)n, &ignored) < 0)
                refuse(c);
        else if (c->reader.state >= HTTP_READER_HEADERS)
                finish(w, c);
}

static struct connection *find_slot(struct wait *w)
{
        struct connection *oldest = &w->connections[0];

        for (size_t i = 0; i < LISTENER_CONNECTIONS; i++) {
                struct connection *c = &w->connections[i];
                if (c->fd < 0)
                        return c;
                if (c->since < oldest->since)
                        oldest = c;
        }
        drop(oldest);
        return oldest;
}

static void on_connection(struct wait *w)
{
        int fd = accept4(w->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
                return;
        struct connection *c = find_slot(w);
        *c = (struct connection){.fd = fd, .since = clock_us()};
        oauth_listener_expect(&c->reader);
}

/* A line that was pasted. */
static void on_input(struct wait *w)
{
        ssize_t n = buffer_read_fd(&w->line, w->input, LISTENER_REQUEST_MAX);
        const char *end;

        if (n <= 0 && n != -EAGAIN) {
                w->input = -1;
                (void)buffer_append_text(&w->line, "\n"); /* the last line may lack it */
        }
        while (!w->done && w->line.length > 0 &&
               (end = memchr(buffer_bytes(&w->line), '\n', w->line.length))) {
                size_t length = (size_t)(end - buffer_bytes(&w->line)), query = 0;
                const char *from = oauth_pasted_query(buffer_bytes(&w->line), length, &query);
                if (!take(w, from, query) && query > 0)
                        fputs("This URL does not belong to the login in progress: its state differs.\n",
                              stderr);
                buffer_consume(&w->line, length + 1);
        }
}

static int wait_once(struct wait *w, uint64_t until, struct error *err)
{
        struct pollfd polls[LISTENER_CONNECTIONS + 2];
        uint64_t now = clock_ms();

        polls[0] = (struct pollfd){.fd = w->listener->fd, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = w->input, .events = POLLIN};
        for (size_t i = 0; i < LISTENER_CONNECTIONS; i++)
                polls[i + 2] = (struct pollfd){.fd = w->connections[i].fd, .events = POLLIN};
        if (now >= until)
                return error_set(
                        err, ETIMEDOUT,
                        "the browser did not come back within %d minutes: log in again, with --no-browser if it is on another machine",
                        LISTENER_WAIT_MS / 60000);
        if (w->must_paste && w->input < 0)
                return error_set(err, ENODATA,
                                 "standard input ended before the page's URL was pasted");
        int r = poll(polls, ARRAY_SIZE(polls), (int)(until - now));
        if (r < 0 && errno != EINTR)
                return error_errno(err, errno, "poll");
        for (size_t i = 0; i < LISTENER_CONNECTIONS && r > 0 && !w->done; i++)
                if (polls[i + 2].revents && w->connections[i].fd >= 0)
                        on_data(w, &w->connections[i]);
        if (r > 0 && polls[1].revents && !w->done)
                on_input(w);
        if (r > 0 && polls[0].revents && !w->done)
                on_connection(w);
        return 0;
}

int oauth_listener_wait(struct oauth_listener *listener, int input, bool must_paste,
                        const char *state, struct oauth_redirect *ret, struct error *err)
{
        _cleanup_free_ struct wait *w = calloc(1, sizeof(*w));
        uint64_t until = clock_ms() + LISTENER_WAIT_MS;
        int r = 0;

        if (!w)
                return error_errno(err, ENOMEM, "wait for the browser");
        *w = (struct wait){.listener = listener,
                           .state = state,
                           .input = input,
                           .must_paste = must_paste,
                           .line = BUFFER_INIT(LISTENER_REQUEST_MAX),
                           .ret = ret};
        for (size_t i = 0; i < LISTENER_CONNECTIONS; i++)
                w->connections[i].fd = -1;
        while (!w->done && r >= 0)
                r = wait_once(w, until, err);
        for (size_t i = 0; i < LISTENER_CONNECTIONS; i++)
                drop(&w->connections[i]);
        buffer_done(&w->line);
        return r;
}
