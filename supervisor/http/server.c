/* Listeners and the number of connections. */
#include "supervisor/http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "supervisor/http/http-internal.h"

enum { ACCEPT_AT_ONCE = 64, SWEEP_S = 30 };

static void pause_listeners(struct http_server *server)
{
        server->paused = true;
        for (size_t i = 0; i < server->n_listeners; i++)
                event_del(server->listeners[i]);
}

void http_server_resume(struct http_server *server)
{
        if (!server->paused)
                return;
        server->paused = false;
        for (size_t i = 0; i < server->n_listeners; i++)
                event_add(server->listeners[i], NULL);
}

/* An idle connection gives its place to a new one. Returns whether there is a place. */
static bool make_place(struct http_server *server)
{
        if (server->n_connections < HTTP_CONNECTIONS_MAX)
                return true;
        struct http_connection *oldest = TAILQ_FIRST(&server->idle);
        if (!oldest)
                return false;
        http_connection_free(oldest);
        return true;
}

static void on_connection(evutil_socket_t listener, short what, void *data)
{
        struct http_server *server = data;

        for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
                if (!make_place(server)) {
                        pause_listeners(server);
                        return;
                }
                int fd = accept4((int)listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
                        log_warning("a connection waits: %s", strerror(errno));
                        pause_listeners(server);
                        return;
                }
                if (fd < 0)
                        return;
                http_connection_new(server, fd);
        }
}

static void on_sweep(evutil_socket_t fd, short what, void *data)
{
        struct http_server *server = data;

        http_sessions_expire(server);
        http_server_resume(server);
}

static int listen_on(struct http_server *server, const struct http_options *options)
{
        const struct timeval every = {.tv_sec = SWEEP_S};

        for (size_t i = 0; i < options->n_fds; i++) {
                struct event *event = event_new(server->base, options->fds[i], EV_READ | EV_PERSIST,
                                                on_connection, server);
                if (!event || event_add(event, NULL) < 0)
                        return -ENOMEM;
                server->fds[server->n_listeners] = options->fds[i];
                server->listeners[server->n_listeners++] = event;
        }
        server->sweep = event_new(server->base, -1, EV_PERSIST, on_sweep, server);
        return server->sweep && event_add(server->sweep, &every) == 0 ? 0 : -ENOMEM;
}

int http_server_new(struct http_server **ret, struct event_base *base, struct mcp_server *mcp,
                    const struct http_options *options, struct error *err)
{
        struct http_server *server = calloc(1, sizeof(*server));

        if (!server)
                return error_errno(err, ENOMEM, "HTTP server");
        *server = (struct http_server){.base = base, .mcp = mcp};
        TAILQ_INIT(&server->idle);
        TAILQ_INIT(&server->busy);
        TAILQ_INIT(&server->sessions);
        access_init(&server->access, options->profile);
        for (size_t i = 0; i < options->n_hosts; i++)
                server->access.hosts[server->access.n_hosts++] = options->hosts[i];
        for (size_t i = 0; i < options->n_origins; i++)
                server->access.origins[server->access.n_origins++] = options->origins[i];
        int r = options->tokens ? access_read_tokens(&server->access, options->tokens,
                                                     options->tokens_length, err)
                                : 0;
        if (r >= 0 && listen_on(server, options) < 0)
                r = error_errno(err, ENOMEM, "listen");
        if (r < 0) {
                http_server_free(server);
                return r;
        }
        *ret = server;
        return 0;
}

static void free_all(struct http_connections *list)
{
        while (!TAILQ_EMPTY(list))
                http_connection_free(TAILQ_FIRST(list));
}

struct http_server *http_server_free(struct http_server *server)
{
        if (!server)
                return NULL;
        for (size_t i = 0; i < server->n_listeners; i++) {
                event_free(server->listeners[i]);
                close(server->fds[i]);
        }
        server->n_listeners = 0;
        if (server->sweep)
                event_free(server->sweep);
        free_all(&server->idle);
        free_all(&server->busy);
        while (!TAILQ_EMPTY(&server->sessions))
                http_session_free(TAILQ_FIRST(&server->sessions));
        access_done(&server->access);
        free(server);
        return NULL;
}
