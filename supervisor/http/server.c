/* Listeners and the number of connections. */
#include "supervisor/http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "rpc/serve-messages.h"
#include "supervisor/http/ask-page.h"
#include "supervisor/http/connection.h"
#include "supervisor/http/state.h"
#include "supervisor/http/stream.h"
#include "supervisor/http/view.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/server.h"
#include "supervisor/mcp/state.h"
#include "supervisor/service/event.h"
#include "supervisor/service/metrics.h"
#include "supervisor/service/phase.h"

enum { ACCEPT_AT_ONCE = 64, SWEEP_S = 30 };

/* The connection that gives its place to a new one: the longest idle one, else the oldest of those whose
 * principal is not known yet. NULL: there is none. */
static struct http_connection *least_wanted(const struct http_server *server)
{
        struct http_connection *c;

        TAILQ_FOREACH (c, &server->idle, link) {
                if (!c->admin)
                        return c;
        }
        TAILQ_FOREACH (c, &server->busy, link) {
                if (!c->principal && !c->admin)
                        return c;
        }
        return NULL;
}

static bool has_place(const struct http_server *server)
{
        return server->n_connections < HTTP_CONNECTIONS_MAX || least_wanted(server);
}

/* No connection is accepted until http_server_resume(). */
static void pause_accepting(struct http_server *server)
{
        server->paused = true;
        for (size_t i = 0; i < server->n_listeners; i++)
                event_del(server->listeners[i]);
        /* The removal of a token does not wait for a place. */
        if (server->helper && !server->access.needs_token)
                event_del(server->helper);
}

/* Only when there is a new connection: it would itself be the longest idle one. */
static void take_connection(struct http_server *server, int fd, bool is_unix,
                            struct mcp_principal *user, const union http_peer *peer)
{
        if (server->n_connections >= HTTP_CONNECTIONS_MAX)
                http_connection_free(least_wanted(server));
        struct http_connection *c = http_connection_new(server, fd, user, peer);
        if (c)
                c->is_unix = is_unix;
}

static void on_connection(evutil_socket_t listener, short what, void *data)
{
        struct http_server *server = data;

        for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
                if (!has_place(server)) {
                        pause_accepting(server);
                        return;
                }
                union http_peer peer = {};
                socklen_t size = sizeof(peer);
                int fd = accept4((int)listener, &peer.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
                        log_warning("a connection waits: %s", strerror(errno));
                        pause_accepting(server);
                        return;
                }
                if (fd < 0)
                        return;
                take_connection(server, fd, peer.any.sa_family == AF_UNIX, NULL, &peer);
        }
}

/* ---- the address of --admin ---- */

/* The connection that gives its place to a new one: the longest idle one, else the oldest whose request has not come whole, so that
 * no client can keep others from sending requests. */
static struct http_connection *least_wanted_admin(const struct http_server *server)
{
        struct http_connection *c;

        TAILQ_FOREACH (c, &server->idle, link) {
                if (c->admin)
                        return c;
        }
        TAILQ_FOREACH (c, &server->busy, link) {
                if (c->admin && (c->state == CONNECTION_READING || c->state == CONNECTION_CLOSING))
                        return c;
        }
        return NULL;
}

static bool make_admin_place(struct http_server *server)
{
        struct http_connection *c = server->n_admin < HTTP_ADMIN_CONNECTIONS_MAX
                                            ? NULL
                                            : least_wanted_admin(server);

        if (c)
                http_connection_free(c);
        return server->n_admin < HTTP_ADMIN_CONNECTIONS_MAX;
}

static void on_admin_connection(evutil_socket_t listener, short what, void *data)
{
        struct http_server *server = data;

        for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
                int fd = accept4((int)listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
                        event_del(server->admin_listener); /* until on_sweep() */
                if (fd < 0)
                        return;
                if (make_admin_place(server))
                        http_connection_new_admin(server, fd);
                else
                        close(fd);
        }
}

/* ---- the helper ---- */

static void count_principals(struct http_server *server)
{
        sessions_set_principals(server->mcp->sessions, access_principals(&server->access),
                                access_sums, &server->access);
        if (server->access.needs_token)
                sessions_require_names(server->mcp->sessions);
}

static const struct limits *limits_of(const void *data, const char *profile)
{
        const struct http_server *server = data;
        const struct config *config = sessions_config(server->mcp->sessions);
        int i = profile ? config_find_profile(config, profile, NULL) : (int)config->profile;

        return i >= 0 && (size_t)i < config->n_profiles ? &config->profiles[i].limits : NULL;
}

static void take_client(struct http_server *server, int fd, uint32_t uid)
{
        struct mcp_principal *user = access_user(&server->access, uid);

        if (user) {
                count_principals(server);
                take_connection(server, fd, true, user, NULL);
                return;
        }
        log_warning("uid %u was refused: %d other users were here", uid, ACCESS_USERS_MAX);
        close(fd);
}

static void end_connections_of(struct http_server *server, const struct mcp_principal *principal)
{
        struct http_connection *c = TAILQ_FIRST(&server->busy), *next;

        for (; c; c = next) {
                next = TAILQ_NEXT(c, link);
                if (c->principal != principal)
                        continue;
                c->keep_alive = false;
                if (c->state != CONNECTION_FLUSHING && c->state != CONNECTION_CLOSING)
                        http_connection_free(c);
        }
}

/* The sessions and connections of a token end with the token. */
static void on_token_changed(void *data, struct mcp_principal *principal, enum access_change change)
{
        struct http_server *server = data;
        bool removed = change == ACCESS_REMOVED;
        struct http_session *session = TAILQ_FIRST(&server->sessions), *next;

        for (; session && removed; session = next) {
                next = TAILQ_NEXT(session, link);
                if (session->principal == principal)
                        http_session_free(session);
        }
        if (change != ACCESS_PROFILE)
                end_connections_of(server, principal);
        if (removed)
                mcp_server_forget(server->mcp, principal);
        else
                mcp_server_restrict(server->mcp, principal);
        log_info("%s: %s", principal->name,
                 removed                    ? "the token was removed"
                 : change == ACCESS_PROFILE ? "the profile is another one"
                                            : "the token is another one");
}

void http_server_restrict(struct http_server *server)
{
        struct access *access = &server->access;

        for (size_t i = 0; i < access->n_tokens; i++) {
                struct mcp_principal *principal = &access->tokens[i]->principal;
                if (access->tokens[i]->removed || access->tokens[i]->role)
                        continue;
                mcp_server_restrict(server->mcp, principal);
                /* A request that has begun would get the default's rights. */
                if (!mcp_profile_exists(server->mcp, principal->profile))
                        end_connections_of(server, principal);
        }
        for (size_t i = 0; i < access->n_users; i++)
                mcp_server_restrict(server->mcp, &access->users[i]->principal);
        mcp_server_restrict(server->mcp, &access->everybody);
}

/* The first token whose profile the config does not have, or NULL: it would have the default's rights. */
static const struct mcp_principal *without_profile(const struct http_server *server)
{
        for (size_t i = 0; i < server->access.n_tokens; i++) {
                const struct access_token *t = server->access.tokens[i];
                if (!t->removed && !t->role &&
                    !mcp_profile_exists(server->mcp, t->principal.profile))
                        return &t->principal;
        }
        return NULL;
}

static void use_tokens(struct http_server *server, const char *text, size_t n)
{
        size_t role_changes = server->access.role_changes;
        struct error err = {};

        int r = access_replace_tokens(&server->access, text, n, on_token_changed, server, &err);
        metrics_add(METRIC_RELOADS, 1, r < 0 ? "failed" : "tokens");
        if (r < 0)
                log_error("the file of tokens: %s; the previous ones stay in use", err.text);
        event_reload(&(struct event_reload){"tokens", r >= 0, err.text});
        if (server->access.role_changes != role_changes)
                http_views_end(server);
        count_principals(server);
        const struct mcp_principal *refused = r < 0 ? NULL : without_profile(server);
        /* The config may be about to change as well. */
        if (refused)
                log_error(
                        "the file of tokens: %s is refused: there is no profile \"%s\" in the config",
                        refused->name, refused->profile);
}

static void drop_tokens(struct http_server *server)
{
        if (server->tokens)
                explicit_bzero(server->tokens, server->tokens_length);
        free(take_ptr(server->tokens));
}

static void answer_check(struct http_server *server, const struct error *error)
{
        void (*answered)(void *data, const struct error *error) = server->tokens_answered;

        server->tokens_answered = NULL;
        if (answered)
                answered(server->tokens_data, error);
}

/* asked: it is used later, if it can be. */
static void take_tokens(struct http_server *server, int fd, bool asked)
{
        struct error err = {};

        drop_tokens(server);
        int r = fd_read_whole(fd, ACCESS_FILE_MAX, &server->tokens, &server->tokens_length, &err);
        close(fd);
        if (r >= 0 && asked)
                r = access_check_tokens(&server->access, server->tokens, server->tokens_length,
                                        &err);
        if (r < 0)
                error_context(&err, "the file of tokens");
        if (asked) {
                answer_check(server, r < 0 ? &err : NULL);
                return;
        }
        if (r < 0)
                log_error("%s; the previous ones stay in use", err.text);
        else
                use_tokens(server, server->tokens, server->tokens_length);
        drop_tokens(server);
}

void http_server_check_tokens(struct http_server *server,
                              void (*answered)(void *data, const struct error *error), void *data)
{
        const struct serve_message message = {.kind = SERVE_READ};
        struct error err = {};

        server->tokens_answered = answered;
        server->tokens_data = data;
        if (!server->access.needs_token || !server->helper) {
                answer_check(server, NULL);
                return;
        }
        int r = fd_send(server->helper_fd, &message, sizeof(message), NULL, 0, MSG_DONTWAIT);
        if (r < 0) {
                error_errno(&err, -r, "ask the helper of 'cloister serve'");
                answer_check(server, &err);
        }
}

void http_server_take_tokens(struct http_server *server, bool use)
{
        if (use && server->tokens)
                use_tokens(server, server->tokens, server->tokens_length);
        drop_tokens(server);
}

/* Returns 1 if the message says why the helper ends. */
static int take_message(struct http_server *server, struct serve_message *message, int *fds,
                        size_t n)
{
        if (message->kind < SERVE_CLIENT || message->kind > SERVE_FAILED ||
            n != (message->kind < SERVE_PROBLEM)) {
                fd_close_many(fds, n);
                return -EPROTO;
        }
        error_sanitize(&message->error);
        if (message->kind == SERVE_CLIENT)
                take_client(server, fds[0], message->uid);
        else if (message->kind < SERVE_FAILED && !message->asked &&
                 sessions_config(server->mcp->sessions)->reload_by_signal)
                fd_close_many(fds, n);
        else if (message->kind == SERVE_TOKENS)
                take_tokens(server, fds[0], message->asked);
        else if (message->kind == SERVE_PROBLEM && message->asked)
                answer_check(server, &message->error);
        else if (message->kind == SERVE_PROBLEM)
                log_error("%s; the previous tokens stay in use", message->error.text);
        else
                log_error("the helper of 'cloister serve': %s", message->error.text);
        return message->kind == SERVE_FAILED;
}

/* It ends with the monitor only. */
static void on_helper(evutil_socket_t socket, short what, void *data)
{
        struct http_server *server = data;
        struct serve_message message;

        for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
                int fds[1];
                size_t n = ARRAY_SIZE(fds);
                if (!server->access.needs_token && !has_place(server)) {
                        pause_accepting(server);
                        return;
                }
                ssize_t r = fd_receive((int)socket, &message, sizeof(message), fds, &n, NULL,
                                       MSG_DONTWAIT);
                if (r == -EAGAIN || r == -EINTR)
                        return;
                if (r <= 0 && server->passed && service_is_stopping()) {
                        event_del(server->helper);
                        return;
                }
                int taken = r == sizeof(message) ? take_message(server, &message, fds, n) : -EPROTO;
                if (taken == 0)
                        continue;
                if (r > 0 && r != sizeof(message))
                        fd_close_many(fds, n);
                if (taken < 0)
                        log_error("the helper of 'cloister serve' has ended");
                event_del(server->helper);
                server->failed(server->data);
                return;
        }
}

static void on_sweep(evutil_socket_t fd, short what, void *data)
{
        struct http_server *server = data;

        http_sessions_expire(server);
        http_server_resume(server);
        if (server->admin_listener)
                event_add(server->admin_listener, NULL);
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
        if (options->helper >= 0) {
                server->helper_fd = options->helper;
                server->helper = event_new(server->base, options->helper, EV_READ | EV_PERSIST,
                                           on_helper, server);
                if (!server->helper || event_add(server->helper, NULL) < 0)
                        return -ENOMEM;
        }
        if (options->admin_fd >= 0) {
                server->admin_fd = options->admin_fd;
                server->admin_listener = event_new(server->base, options->admin_fd,
                                                   EV_READ | EV_PERSIST, on_admin_connection,
                                                   server);
                if (!server->admin_listener || event_add(server->admin_listener, NULL) < 0)
                        return -ENOMEM;
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
        *server = (struct http_server){
                .base = base,
                .mcp = mcp,
                .failed = options->failed,
                .data = options->data,
                .admin_view = options->admin_view,
                .collect = options->collect,
                .passed = options->passed,
        };
        TAILQ_INIT(&server->idle);
        TAILQ_INIT(&server->busy);
        TAILQ_INIT(&server->waiting);
        evtimer_assign(&server->turn, base, http_take_turn, server);
        TAILQ_INIT(&server->sessions);
        access_init(&server->access, options->profile);
        server->access.limits_of = limits_of;
        server->access.data = server;
        server->access.hosts = options->hosts;
        server->access.n_hosts = options->n_hosts;
        server->access.origins = options->origins;
        server->access.n_origins = options->n_origins;
        int r = options->tokens ? access_read_tokens(&server->access, options->tokens,
                                                     options->tokens_length, err)
                                : 0;
        const struct mcp_principal *refused = r < 0 ? NULL : without_profile(server);
        if (refused)
                r = error_set(err, EINVAL,
                              "the file of tokens: %s: there is no profile \"%s\" in the config",
                              refused->name, refused->profile);
        if (r >= 0 && listen_on(server, options) < 0)
                r = error_errno(err, ENOMEM, "listen");
        if (r < 0) {
                http_server_free(server);
                return r;
        }
        count_principals(server);
        *ret = server;
        return 0;
}

static void free_all(struct http_connections *list)
{
        while (!TAILQ_EMPTY(list))
                http_connection_free(TAILQ_FIRST(list));
}

static void close_listeners(struct http_server *server)
{
        for (size_t i = 0; i < server->n_listeners; i++) {
                event_free(server->listeners[i]);
                close(server->fds[i]);
        }
        server->n_listeners = 0;
}

/* The end of the pair ends the helper, which accepts on unix sockets. Connections that it has passed already are served. */
void http_server_stop(struct http_server *server)
{
        if (!server->passed)
                return;
        close_listeners(server);
        if (server->helper)
                shutdown(server->helper_fd, SHUT_WR);
}

void http_server_close(struct http_server *server)
{
        struct http_session *session;

        TAILQ_FOREACH (session, &server->sessions, link) {
                if (session->main->connection && session->main->began)
                        http_stream_end(session->main);
        }
}

bool http_server_has_answers(const struct http_server *server)
{
        const struct http_connection *c;

        TAILQ_FOREACH (c, &server->busy, link) {
                if (c->state == CONNECTION_ANSWERING ||
                    (c->state == CONNECTION_FLUSHING && http_waiting(c) > 0))
                        return true;
        }
        return false;
}

struct http_server *http_server_free(struct http_server *server)
{
        if (!server)
                return NULL;
        close_listeners(server);
        if (server->helper) {
                event_free(server->helper);
                close(server->helper_fd);
                server->helper = NULL;
        }
        if (server->admin_listener) {
                event_free(server->admin_listener);
                close(server->admin_fd);
        }
        http_ask_free(server->ask_tries);
        if (server->sweep)
                event_free(server->sweep);
        if (server->views_timer)
                event_free(server->views_timer);
        event_del(&server->turn);
        free_all(&server->idle);
        free_all(&server->busy);
        while (!TAILQ_EMPTY(&server->sessions))
                http_session_free(TAILQ_FIRST(&server->sessions));
        drop_tokens(server);
        access_done(&server->access);
        free(server);
        return NULL;
}
