/* An HTTP server on a unix socket, before the MCP server of fake-mcp.h; clients are descriptors. The
 * clock advances only in fake_run_ms(). */
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "supervisor/http/server.h"
#include "supervisor/http/state.h"
#include "supervisor/http/stream.h"
#include "tests/unit/fake-mcp.h"

static struct http_server *http;
static struct sockaddr_un http_address;
static socklen_t http_address_size;

static inline int http_listener(void)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        check(fd >= 0);
        http_address = (struct sockaddr_un){.sun_family = AF_UNIX};
        /* The kernel chooses an abstract name. */
        check_eq_int(bind(fd, (struct sockaddr *)&http_address, sizeof(sa_family_t)), 0);
        check_eq_int(listen(fd, 64), 0);
        http_address_size = sizeof(http_address);
        check_eq_int(getsockname(fd, (struct sockaddr *)&http_address, &http_address_size), 0);
        return fd;
}

/* tokens: text of a file, or NULL. */
static inline void open_http(const char *tokens)
{
        struct http_options options = {.n_fds = 1, .tokens = tokens, .helper = -1, .admin_fd = -1};
        struct error err = {};

        open_server();
        options.fds[0] = http_listener();
        options.tokens_length = tokens ? strlen(tokens) : 0;
        check_ok(http_server_new(&http, f.base, server, &options, &err));
}

static inline void close_http(void)
{
        f.sessions = sessions_free(f.sessions);
        mcp_server_drop_calls(server);
        http = http_server_free(http);
        close_server();
}

static inline int dial(void)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        check(fd >= 0);
        check_eq_int(connect(fd, (struct sockaddr *)&http_address, http_address_size), 0);
        fake_spin(&f);
        return fd;
}

static inline void say(int fd, const char *text)
{
        check_eq_int(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
        fake_spin(&f);
}

/* Everything that has come, as text; valid until the next call. */
static inline const char *hear(int fd)
{
        static char text[8 * 1024 * 1024];
        size_t n = 0;
        ssize_t got;

        fake_spin(&f);
        while ((got = recv(fd, text + n, sizeof(text) - 1 - n, 0)) > 0) {
                n += (size_t)got;
                fake_spin(&f);
        }
        text[n] = '\0';
        return text;
}

static inline void check_status(int fd, int status)
{
        char line[32];

        snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
        const char *text = hear(fd);
        if (strncmp(text, line, strlen(line)) != 0)
                test_fail_("not %d but: %.200s", status, text);
}

/* Whether the server has ended the connection. Drops the bytes that arrived before. */
static inline bool is_over(int fd)
{
        char text[4096];
        ssize_t n;

        fake_spin(&f);
        while ((n = recv(fd, text, sizeof(text), 0)) > 0)
                ;
        return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

#define GET_HEALTH "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define POST_HEAD  "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

/* headers: whole lines. */
static inline void post(int fd, const char *headers, const char *body)
{
        char text[4096];

        check(snprintf(text, sizeof(text), POST_HEAD "%sContent-Length: %zu\r\n\r\n%s", headers,
                       strlen(body), body) < (int)sizeof(text));
        say(fd, text);
}

/* A session of a legacy client; its id is copied. */
static inline struct http_session *initialize_http(int fd, const char *headers, char *id)
{
        post(fd, headers, INITIALIZE("2025-11-25"));
        check_status(fd, 200);
        struct http_session *session = TAILQ_LAST(&http->sessions, http_sessions);
        check(session);
        snprintf(id, HTTP_SESSION_ID + 1, "%s", session->id);
        return session;
}

/* Reads the stream of the session, or that of an event. */
static inline void get_stream(int fd, const char *id, const char *last)
{
        char text[512];

        snprintf(text, sizeof(text),
                 "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                 "Mcp-Session-Id: %s\r\n%s%s%s\r\n",
                 id, last ? "Last-Event-ID: " : "", last ? last : "", last ? "\r\n" : "");
        say(fd, text);
}

/* A notification of the session. */
static inline void notify(struct http_session *session, const char *bytes, size_t n)
{
        const struct mcp_message message = {.bytes = bytes, .n = n};

        session->main->sink.calls->send(&session->main->sink, &message);
        fake_spin(&f);
}
