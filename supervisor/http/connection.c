/* Connections. */
#include "supervisor/http/connection.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/share.h"
#include "rpc/http/event-stream.h"
#include "rpc/jsonrpc.h"
#include "rpc/memory-reservation.h"
#include "supervisor/http/admin.h"
#include "supervisor/http/ask-page.h"
#include "supervisor/http/checks.h"
#include "supervisor/http/standard-headers.h"
#include "supervisor/http/state.h"
#include "supervisor/http/stream.h"
#include "supervisor/http/view.h"
#include "supervisor/mcp/peer.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/state.h"
#include "supervisor/service/event.h"
#include "supervisor/service/metrics.h"
#include "supervisor/service/phase.h"

enum { HEADER_SIZE = 1024, HOST_SHOWN = 200, PIECE_MAX = 16 * 1024 };

#define METADATA_PATH "/.well-known/oauth-protected-resource"

static const char *header(const struct http_connection *c, const char *name)
{
        return http_request_header(&c->reader, name);
}

/* ---- paths: where requests go ---- */

static void on_health(struct http_connection *c)
{
        http_respond_text(c, 200, "ok");
}

/* RFC 9728. Tokens come from the owner's file: no authorization server is named. */
static void on_metadata(struct http_connection *c)
{
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(HEADER_SIZE);
        const struct access *access = &c->server->access;
        struct json_out out = {.to = &body};

        if (!access->needs_token) {
                http_respond_text(c, 404, "no tokens are needed");
                return;
        }
        char url[HOST_SHOWN + 32];
        snprintf(url, sizeof(url), "%s://%.*s/mcp", access->n_hosts > 0 ? "https" : "http",
                 HOST_SHOWN, header(c, "host"));
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "resource", url);
        json_out_begin(&out, "bearer_methods_supported", '[');
        json_out_text(&out, NULL, "header");
        json_out_end(&out, ']');
        json_out_text(&out, "resource_name", "Cloister");
        json_out_end(&out, '}');
        int r = out.error < 0 ? out.error : buffer_append(&body, "\n", 1);
        if (r < 0)
                http_respond_text(c, 500, "out of memory");
        else
                http_respond(c, 200, NULL, "application/json", buffer_bytes(&body), body.length);
}

/* ---- /mcp ---- */

/* Finds the session that the header names; responds if there is none. */
static struct http_session *need_session(struct http_connection *c, yyjson_val *id)
{
        const char *name = header(c, "mcp-session-id");
        struct http_session *session = name ? http_session_find(c->server, c->principal, name)
                                            : NULL;

        if (!name)
                http_respond_error(c, 400, id, JSONRPC_INVALID_REQUEST,
                                   "Mcp-Session-Id is missing: initialize first");
        else if (!session)
                http_respond_error(c, 404, id, JSONRPC_INVALID_REQUEST,
                                   "there is no such session: initialize again");
        return session;
}

/* Whether the client accepts this type. Without the header it accepts all. */
static bool accepts(const struct http_connection *c, const char *type)
{
        const char *list = header(c, "accept");
        char whole[32];

        snprintf(whole, sizeof(whole), "%.*s*", (int)(strchr(type, '/') + 1 - type), type);
        return !list || http_list_has(list, type) || http_list_has(list, whole) ||
               http_list_has(list, "*/*");
}

static struct http_stream *open_stream(struct http_connection *c)
{
        struct http_stream *stream = http_stream_new(c);

        if (!stream) {
                http_respond_text(c, 503, "out of memory");
                return NULL;
        }
        stream->takes_events = accepts(c, "text/event-stream");
        stream->takes_json = accepts(c, "application/json");
        return stream;
}

/* The trace of the request is that of its messages which have none of their own. */
static void pass(const struct http_connection *c, struct mcp_peer *peer, struct mcp_sink *sink,
                 const struct jsonrpc_message *message, int r, const struct error *err)
{
        const char *parent = header(c, "traceparent"), *state = header(c, "tracestate");
        struct trace_context trace;

        peer->transport = c->is_unix ? "unix" : "tcp";
        if (parent &&
            trace_context_read(&trace, parent, strlen(parent), state, state ? strlen(state) : 0))
                peer->trace = &trace;
        mcp_peer_parsed(peer, sink, message, r, err);
        peer->trace = NULL;
}

static void take_modern(struct http_connection *c, const struct jsonrpc_message *message)
{
        struct mcp_request request;
        struct error err = {};

        if (message->kind == JSONRPC_NOTIFICATION) {
                http_respond(c, 202, NULL, NULL, NULL, 0);
                return;
        }
        if (message->kind != JSONRPC_REQUEST) {
                http_respond_error(c, 400, NULL, JSONRPC_INVALID_REQUEST,
                                   "one request or notification is taken");
                return;
        }
        if (standard_headers_check(&c->reader, message, &err) < 0) {
                http_respond_error(c, 400, message->id, MCP_HEADER_MISMATCH, err.text);
                return;
        }
        struct http_stream *stream = open_stream(c);
        if (!stream)
                return;
        if (mcp_peer_new(&stream->peer, c->server->mcp, c->principal, NULL, &err) < 0) {
                http_respond_text(c, 503, err.text);
                return;
        }
        stream->peer->fresh_sessions = true;
        if (mcp_request_read(message->params, &request, &err) != 0 || request.era != ERA_MODERN)
                stream->error_status = 400;
        pass(c, stream->peer, &stream->sink, message, 0, &err);
}

static bool version_known(const char *version)
{
        static const char *const versions[] = {"2025-03-26", "2025-06-18", "2025-11-25",
                                               "2024-11-05"};

        for (size_t i = 0; version && i < ARRAY_SIZE(versions); i++) {
                if (strcmp(version, versions[i]) == 0)
                        return true;
        }
        return !version;
}

/* A request, or a batch of them, has an answer; anything else has not. */
static void take_legacy(struct http_connection *c, struct http_session *session,
                        const struct jsonrpc_message *message)
{
        struct error err = {};
        bool answered = message->kind == JSONRPC_REQUEST || message->kind == JSONRPC_BATCH;
        struct http_stream *stream = answered ? open_stream(c) : NULL;

        if (answered && !stream)
                return;
        if (stream)
                http_session_keep(session, stream);
        pass(c, session->peer, stream ? &stream->sink : NULL, message, 0, &err);
        if (!stream) {
                http_respond(c, 202, NULL, NULL, NULL, 0);
                return;
        }
        /* A batch of notifications, or a request that waits. */
        if (stream->sink.refs == 2 && !stream->answered && c->state == CONNECTION_ANSWERING)
                http_respond(c, 202, NULL, NULL, NULL, 0);
}

static void take_initialize(struct http_connection *c, const struct jsonrpc_message *message)
{
        struct service_refusal refusal;

        if (service_phase() == SERVICE_DRAINING) {
                service_refuse_draining(&refusal);
                http_respond_refusal(c, message->id, &refusal);
                return;
        }
        struct http_session *session = http_session_new(c->server, c->principal);
        if (!session) {
                http_respond_error(c, 503, message->id, JSONRPC_INTERNAL_ERROR,
                                   "too many sessions are open: end some with DELETE");
                return;
        }
        take_legacy(c, session, message);
        if (!session->peer->initialized)
                http_session_free(session);
}

static void on_post(struct http_connection *c, const struct jsonrpc_message *message, int r,
                    const struct error *err)
{
        if (r < 0) {
                http_respond_error(c, 400, message->id,
                                   r == -EBADMSG ? JSONRPC_PARSE_ERROR : JSONRPC_INVALID_REQUEST,
                                   err->text);
                return;
        }
        yyjson_val *meta = yyjson_obj_get(message->params, "_meta");
        if (message->kind == JSONRPC_REQUEST && jsonrpc_method_is(message, "initialize") &&
            !yyjson_obj_get(meta, META_VERSION)) {
                take_initialize(c, message);
                return;
        }
        if (standard_headers_modern(&c->reader, message)) {
                take_modern(c, message);
                return;
        }
        struct http_session *session = need_session(c, message->id);
        if (!session)
                return;
        if (!version_known(header(c, "mcp-protocol-version")))
                http_respond_error(c, 400, message->id, JSONRPC_INVALID_REQUEST,
                                   "MCP-Protocol-Version is not supported");
        else
                take_legacy(c, session, message);
}

static void refuse_method(struct http_connection *c)
{
        static const char text[] = "method not allowed\n";

        http_respond(c, 405, "Allow: POST, GET, DELETE\r\n", "text/plain", text, sizeof(text) - 1);
}

static void on_get(struct http_connection *c)
{
        const char *last = header(c, "last-event-id");
        uint64_t after = 0;

        if (standard_headers_say_modern(&c->reader)) {
                refuse_method(c);
                return;
        }
        if (!accepts(c, "text/event-stream")) {
                http_respond_text(c, 406, "Accept: text/event-stream is needed");
                return;
        }
        struct http_session *session = need_session(c, NULL);
        if (!session)
                return;
        struct http_stream *stream = last ? http_session_stream(session, last, &after)
                                          : session->main;
        if (stream == session->main && service_is_stopping())
                http_respond_text(c, 503, "the server is stopping");
        else if (!stream)
                http_respond_text(c, 404, "there is no such event");
        else if (stream->connection)
                http_respond_text(c, 409, "the stream is being read");
        else
                http_stream_attach(stream, c, after);
}

static void on_delete(struct http_connection *c)
{
        if (standard_headers_say_modern(&c->reader)) {
                refuse_method(c);
                return;
        }
        struct http_session *session = need_session(c, NULL);
        if (!session)
                return;
        http_session_free(session);
        http_respond(c, 204, NULL, NULL, NULL, 0);
}

static void on_mcp(struct http_connection *c)
{
        if (c->reader.request.method == HTTP_METHOD_DELETE)
                on_delete(c);
        else
                on_get(c);
}

/* ---- 2024-11-05: /sse and /messages?session=… ---- */

static void on_sse(struct http_connection *c)
{
        _cleanup_buffer_ struct buffer event = BUFFER_INIT(HEADER_SIZE);
        char path[64 + HTTP_SESSION_ID];

        if (c->reader.request.method != HTTP_METHOD_GET) {
                refuse_method(c);
                return;
        }
        if (service_phase() == SERVICE_DRAINING) {
                http_respond_text(c, 503, "the server is stopping");
                return;
        }
        struct http_session *session = http_session_new(c->server, c->principal);
        if (!session) {
                http_respond_text(c, 503, "too many sessions are open");
                return;
        }
        session->sse = true;
        session->main->named_events = true;
        int n = snprintf(path, sizeof(path), "/messages?session=%s", session->id);
        if (sse_append_event(&event, NULL, "endpoint", 0, path, (size_t)n) < 0) {
                http_session_free(session);
                http_respond_text(c, 503, "out of memory");
                return;
        }
        session->main->last = 1; /* nothing is resumed */
        http_stream_attach(session->main, c, 1);
        http_send_events(c, &event);
}

static void on_messages(struct http_connection *c, const struct jsonrpc_message *message, int r,
                        const struct error *err)
{
        const char *query = c->reader.request.query;
        struct http_session *session = query && strncmp(query, "session=", 8) == 0
                                               ? http_session_find(c->server, c->principal,
                                                                   query + 8)
                                               : NULL;

        if (!session || !session->sse) {
                http_respond_text(c, 404, "there is no such session");
                return;
        }
        pass(c, session->peer, &session->main->sink, message, r, err);
        http_respond(c, 202, NULL, NULL, NULL, 0);
}

/* ---- all requests ---- */

static const struct route {
        const char *path;
        bool open; /* without a token */
        void (*take)(struct http_connection *c);
        /* A POST: what jsonrpc_parse() says of its body. NULL: take() */
        void (*posted)(struct http_connection *c, const struct jsonrpc_message *message, int r,
                       const struct error *err);
} routes[] = {
        {"/mcp", false, on_mcp, on_post},
        {"/sse", false, on_sse, NULL},
        {"/messages", false, refuse_method, on_messages},
        {"/healthz", true, on_health, NULL},
        {"/livez", true, http_on_livez, NULL},
        {"/readyz", true, http_on_readyz, NULL},
        {METADATA_PATH, true, on_metadata, NULL},
        {METADATA_PATH "/mcp", true, on_metadata, NULL},
};

static const struct route *find_route(const char *path)
{
        for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
                if (strcmp(routes[i].path, path) == 0)
                        return &routes[i];
        }
        return NULL;
}

static bool takes_method(const struct route *route, enum http_method method)
{
        if (route->open)
                return method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD;
        return method == HTTP_METHOD_GET || method == HTTP_METHOD_POST ||
               method == HTTP_METHOD_DELETE;
}

/* Of a page that may not ask: its Host or Origin. */
static void refuse_page(struct http_connection *c, const char *reason, const char *text)
{
        metrics_add(METRIC_REFUSED, 1, reason);
        http_respond_error(c, 403, NULL, JSONRPC_INVALID_REQUEST, text);
}

static void ask_for_token(struct http_connection *c)
{
        static const char text[] = "a bearer token is needed\n";
        char line[HEADER_SIZE];

        event_token_refused(&(struct event_token_refused){
                .is_missing = header(c, "authorization") == NULL, .status = 401});
        snprintf(line, sizeof(line),
                 "WWW-Authenticate: Bearer realm=\"cloister\"%s, "
                 "resource_metadata=\"%s://%.*s" METADATA_PATH "\"\r\n",
                 header(c, "authorization") ? ", error=\"invalid_token\"" : "",
                 c->server->access.n_hosts > 0 ? "https" : "http", HOST_SHOWN, header(c, "host"));
        metrics_add(METRIC_REFUSED, 1, "token");
        http_respond(c, 401, line, "text/plain", text, sizeof(text) - 1);
}

static void refuse_token(struct http_connection *c)
{
        if (access_role(&c->server->access, header(c, "authorization")) == ACCESS_ROLE_NONE)
                ask_for_token(c);
        else
                http_refuse(c, 403, "role",
                            "a token with a role is for the address of --admin only");
}

/* Too many connections of its principal are busy, this one among them. */
static bool has_too_many(const struct http_connection *c)
{
        const struct http_connection *other;
        size_t own = 0, all = 0;

        if (!c->principal || c->server->n_connections <= HTTP_CONNECTIONS_MAX / 2)
                return false;
        TAILQ_FOREACH (other, &c->server->busy, link) {
                own += other->principal == c->principal;
                all += other->principal != NULL;
        }
        return !share_allows(own, all, HTTP_CONNECTIONS_MAX, 0);
}

/* Takes a request whose head is complete. Runs every check that needs only the head: the body of a request that will be
 * refused is not read. Returns whether the body is wanted, else it has responded. */
static bool take_head(struct http_connection *c)
{
        const struct http_request *request = &c->reader.request;
        const struct route *route = find_route(request->path);
        const char *origin = header(c, "origin"), *type = header(c, "content-type");

        if (!access_host_allowed(&c->server->access, header(c, "host")))
                refuse_page(c, "host", "this Host is not served (--allow-host)");
        else if (origin && !http_is_ask(c) && !access_origin_allowed(&c->server->access, origin))
                refuse_page(c, "origin", "this Origin is not allowed (--allow-origin)");
        else if (c->admin)
                return http_admin_check(c);
        else if (http_is_ask(c))
                return http_ask_check(c);
        else if (!route)
                http_respond_text(c, 404, "there is only /mcp, /sse, /healthz, /livez and /readyz");
        else if (!(c->principal = access_principal(&c->server->access, header(c, "authorization"),
                                                   c->user)) &&
                 !route->open)
                refuse_token(c);
        else if (!takes_method(route, request->method))
                refuse_method(c);
        else if (c->principal && !mcp_profile_exists(c->server->mcp, c->principal->profile))
                http_respond_text(c, 403, "the profile of this token is not in the config");
        else if (has_too_many(c))
                http_refuse(c, 503, "connections", "too many connections of this client are busy");
        else if (request->method == HTTP_METHOD_POST &&
                 (!type || strncasecmp(type, "application/json", 16) != 0 ||
                  (type[16] && !strchr("; \t", type[16]))))
                http_respond_text(c, 415, "Content-Type: application/json is needed");
        else if (request->method == HTTP_METHOD_POST && !accepts(c, "application/json") &&
                 !accepts(c, "text/event-stream"))
                http_respond_text(c, 406, "Accept: application/json, text/event-stream is needed");
        else
                return true;
        return false;
}

static void on_parsed(void *data, struct large_line *line)
{
        struct http_connection *c = data;

        c->parsing = NULL;
        http_hold_body(c);
        find_route(c->reader.request.path)->posted(c, &line->message, line->r, &line->err);
}

/* A large body is parsed in the background, so that other clients do not wait for it. It counts as held until then. */
static void take_body(struct http_connection *c, const struct route *route)
{
        struct buffer *body = &c->reader.request.body;
        _cleanup_jsonrpc_ struct jsonrpc_message message;
        struct error err = {};

        if (body->length > RESERVATION_MIN) {
                message = (struct jsonrpc_message){};
                c->parsing = large_line_start(c->server->base, body, false, on_parsed, c);
                if (!c->parsing)
                        http_respond_text(c, 503, "out of memory");
                return;
        }
        int r = jsonrpc_parse(body->length > 0 ? buffer_bytes(body) : "", body->length, &message,
                              &err);
        route->posted(c, &message, r, &err);
}

static void take_request(struct http_connection *c)
{
        const struct route *route = find_route(
                c->reader.request.path); /* NULL if it is of --admin, or a page */

        c->server->turn_cost += HTTP_REQUEST_COST;
        if (c->admin)
                http_admin_route(c->reader.request.path)->take(c);
        else if (http_is_ask(c))
                http_on_ask(c);
        else if (!route) /* the config has changed meanwhile */
                http_respond_text(c, 404, "there is no such page any more");
        else if (c->reader.request.method == HTTP_METHOD_POST && route->posted)
                take_body(c, route);
        else
                route->take(c);
}

/* ---- turns ---- */

static void await_turn(struct http_server *server)
{
        static const struct timeval at_once = {};

        if (!TAILQ_EMPTY(&server->waiting))
                evtimer_add(&server->turn, &at_once);
}

/* The oldest of a principal that has had none in this round. */
static struct http_connection *next_in_round(struct http_server *server)
{
        struct http_connection *c;

        TAILQ_FOREACH (c, &server->waiting, turn) {
                if (c->principal->round != server->round)
                        return c;
        }
        server->round++;
        return TAILQ_FIRST(&server->waiting);
}

static void end_waiting(struct http_connection *c)
{
        if (c->waits)
                TAILQ_REMOVE(&c->server->waiting, c, turn);
        c->waits = false;
}

void http_take_turn(int fd, short what, void *data)
{
        struct http_server *server = data;
        struct http_connection *c;

        server->turn_cost = 0;
        while (server->turn_cost < HTTP_TURN_COST && (c = next_in_round(server))) {
                c->principal->round = server->round;
                end_waiting(c);
                take_request(c);
        }
        await_turn(server);
}

/* So that many requests of one principal, which are answered at once, keep no other one waiting until all are. */
static void take_in_turn(struct http_connection *c)
{
        struct http_server *server = c->server;
        struct timeval now;

        /* The time of the loop is the same during a turn, or for some milliseconds. */
        event_base_gettimeofday_cached(server->base, &now);
        if (timercmp(&now, &server->turn_began, !=))
                server->turn_cost = 0;
        server->turn_began = now;
        if (http_is_ask(c))
                c->principal = http_ask_sender(c);
        if (!c->principal ||
            (server->turn_cost < HTTP_TURN_COST && TAILQ_EMPTY(&server->waiting))) {
                take_request(c);
                return;
        }
        TAILQ_INSERT_TAIL(&server->waiting, c, turn);
        c->waits = true;
        await_turn(server);
}

/* ---- connections ---- */

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *data)
{
        struct http_connection *c = data;

        c->written += info->n_deleted;
        c->server->held += info->n_added - info->n_deleted;
}

void http_connection_free(struct http_connection *c)
{
        struct http_server *server = c->server;

        if (c->stream)
                http_stream_detach(c->stream);
        if (c->admin)
                http_view_detach(c);
        c->parsing = large_line_cancel(c->parsing);
        end_waiting(c);
        TAILQ_REMOVE(http_list_of(c), c, link);
        *(c->admin ? &server->n_admin : &server->n_connections) -= 1;
        event_del(&c->timer);
        event_del(&c->step);
        evbuffer_remove_cb(bufferevent_get_output(c->io), on_output, c);
        server->held -= http_waiting(c) + c->held;
        bufferevent_free(c->io);
        http_reader_done(&c->reader);
        free(c);
        http_server_resume(server);
}

/* ---- reading ---- */

static void head_complete(struct http_connection *c)
{
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        const struct http_request *request = &c->reader.request;

        c->keep_alive = request->keep_alive;
        if (!take_head(c))
                return;
        http_set_deadline(c, HTTP_BODY_MS);
        if (request->expects_continue && evbuffer_get_length(bufferevent_get_input(c->io)) == 0)
                http_write(c, go_on, sizeof(go_on) - 1);
}

/* Feeds what was read. Returns false when there is nothing more to do now. */
static bool read_some(struct http_connection *c)
{
        struct evbuffer *input = bufferevent_get_input(c->io);
        size_t contiguous = evbuffer_get_contiguous_space(input);
        size_t n = contiguous < PIECE_MAX ? contiguous : PIECE_MAX;
        struct error err = {};

        if (c->state > CONNECTION_READING || (n == 0 && c->reader.state != HTTP_READER_HEADERS))
                return false;
        if (c->state == CONNECTION_IDLE)
                http_set_state(c, CONNECTION_READING);
        const char *bytes = n > 0 ? (const char *)evbuffer_pullup(input, (ssize_t)n) : "";
        ssize_t used = http_reader_feed(&c->reader, bytes, n, &err);
        if (used < 0) {
                c->keep_alive = false;
                http_respond_text(c, c->reader.status, err.text);
                return false;
        }
        evbuffer_drain(input, (size_t)used);
        http_hold_body(c);
        if (c->held > HTTP_HELD_SMALL && http_is_full(c->server, c->principal)) {
                c->keep_alive = false;
                http_refuse(c, 503, "memory", "too much is being sent at once: try again later");
                return false;
        }
        if (c->reader.state == HTTP_READER_HEADERS)
                head_complete(c);
        else if (c->reader.state == HTTP_READER_DONE) {
                http_set_state(c, CONNECTION_ANSWERING);
                take_in_turn(c);
        }
        return true;
}

static void on_readable(struct bufferevent *io, void *data)
{
        struct http_connection *c = data;
        struct evbuffer *input = bufferevent_get_input(io);

        if (c->state == CONNECTION_CLOSING)
                evbuffer_drain(input, evbuffer_get_length(input));
        while (read_some(c))
                ;
}

/* ---- after a response ---- */

/* The response is written, or waits for the client. */
static void go_on(struct http_connection *c)
{
        if (c->broken) {
                http_connection_free(c);
                return;
        }
        if (c->state != CONNECTION_FLUSHING)
                return;
        if (c->stream)
                http_stream_detach(c->stream);
        if (http_waiting(c) > 0)
                return;
        if (!c->keep_alive) {
                /* Closing with unread bytes would reset the connection before the client has read. */
                shutdown(bufferevent_getfd(c->io), SHUT_WR);
                c->principal = NULL;
                http_set_state(c, CONNECTION_CLOSING);
                on_readable(c->io, c);
                return;
        }
        http_reader_next(&c->reader, HTTP_BODY_MAX);
        http_hold_body(c);
        c->began_events = c->chunked = false;
        c->principal = NULL;
        http_set_state(c, CONNECTION_IDLE);
        on_readable(c->io, c);
}

static void on_step(evutil_socket_t fd, short what, void *data)
{
        go_on(data);
}

static void on_written(struct bufferevent *io, void *data)
{
        go_on(data);
}

static void on_event(struct bufferevent *io, short what, void *data)
{
        http_connection_free(data);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        static const char comment[] = ":\n\n";
        struct http_connection *c = data;
        struct buffer quiet = {.data = (char *)(uintptr_t)comment, .length = sizeof(comment) - 1};

        bool reads = http_waiting(c) == 0 || c->written - c->written_before >= HTTP_TICK_BYTES;

        if ((c->state != CONNECTION_ANSWERING && c->state != CONNECTION_FLUSHING) || !reads) {
                if (c->state == CONNECTION_READING)
                        log_debug("a connection was dropped: its request did not come in time");
                http_connection_free(c);
                return;
        }
        if (c->state == CONNECTION_ANSWERING && c->stream && http_stream_is_over(c->stream))
                http_stream_end(c->stream);
        else if (c->state == CONNECTION_ANSWERING && c->stream)
                http_stream_begin(c->stream);
        if (c->state == CONNECTION_ANSWERING && c->began_events && http_waiting(c) == 0)
                http_send_events(c, &quiet);
        c->written_before = c->written;
        http_set_deadline(c, HTTP_TICK_MS);
}

struct http_connection *http_connection_new(struct http_server *server, int fd,
                                            struct mcp_principal *user, const union http_peer *peer)
{
        struct http_connection *c = calloc(1, sizeof(*c));
        struct bufferevent *io = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);

        if (c)
                *c = (struct http_connection){.server = server, .io = io, .user = user};
        if (c && peer)
                c->peer = *peer;
        if (!c || !io || !evbuffer_add_cb(bufferevent_get_output(io), on_output, c)) {
                if (io)
                        bufferevent_free(io);
                else
                        close(fd);
                free(c);
                return NULL;
        }
        evtimer_assign(&c->timer, server->base, on_timer, c);
        event_assign(&c->step, server->base, -1, 0, on_step, c);
        http_reader_init(&c->reader, HTTP_BODY_MAX);
        TAILQ_INSERT_TAIL(&server->idle, c, link);
        server->n_connections++;
        http_set_deadline(c, HTTP_IDLE_MS);
        bufferevent_setwatermark(io, EV_READ, 0, INPUT_HIGH);
        bufferevent_setcb(io, on_readable, on_written, on_event, c);
        bufferevent_enable(io, EV_READ | EV_WRITE);
        return c;
}

void http_connection_new_admin(struct http_server *server, int fd)
{
        struct http_connection *c = http_connection_new(server, fd, NULL, NULL);

        if (!c)
                return;
        c->admin = true;
        server->n_connections--;
        server->n_admin++;
}
