/* States of connections and of the listeners, and responses. */
#include "supervisor/http/state.h"
#include "supervisor/service/phase.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/share.h"
#include "rpc/jsonrpc.h"
#include "supervisor/service/metrics.h"

enum { HEAD_SIZE = 8 * 1024 };

struct http_connections *http_list_of(struct http_connection *c)
{
        return c->state == CONNECTION_IDLE ? &c->server->idle : &c->server->busy;
}

size_t http_waiting(const struct http_connection *c)
{
        return evbuffer_get_length(bufferevent_get_output(c->io));
}

static size_t held_for(const struct http_server *server, const struct mcp_principal *principal)
{
        const struct http_connection *c;
        const struct http_session *session;
        const struct http_stream *stream;
        size_t n = 0;

        TAILQ_FOREACH (c, &server->busy, link)
                n += c->principal == principal ? c->held + http_waiting(c) : 0;
        TAILQ_FOREACH (session, &server->sessions, link) {
                if (session->principal != principal)
                        continue;
                n += session->main->event_bytes;
                TAILQ_FOREACH (stream, &session->streams, link)
                        n += stream->event_bytes;
        }
        return n;
}

bool http_is_full(const struct http_server *server, const struct mcp_principal *principal)
{
        if (server->held <= HTTP_HELD_MAX / 2 || !principal ||
            access_principals(&server->access) == 1)
                return server->held > HTTP_HELD_MAX;
        return !share_allows(held_for(server, principal), server->held, HTTP_HELD_MAX, 0);
}

void http_hold_body(struct http_connection *c)
{
        size_t n = c->reader.request.body.length;

        c->server->held += n - c->held;
        c->held = n;
}

void http_set_deadline(struct http_connection *c, uint64_t ms)
{
        struct timeval t = clock_timeval_ms(ms);

        c->deadline_us = clock_us() + ms * 1000;
        evtimer_add(&c->timer, &t);
}

void http_set_state(struct http_connection *c, enum http_connection_state state)
{
        static const uint64_t limits_ms[] = {
                [CONNECTION_IDLE] = HTTP_IDLE_MS,      [CONNECTION_READING] = HTTP_HEAD_MS,
                [CONNECTION_ANSWERING] = HTTP_TICK_MS, [CONNECTION_FLUSHING] = HTTP_TICK_MS,
                [CONNECTION_CLOSING] = HTTP_LINGER_MS,
        };

        TAILQ_REMOVE(http_list_of(c), c, link);
        c->state = state;
        TAILQ_INSERT_TAIL(http_list_of(c), c, link);
        c->written_before = c->written;
        http_set_deadline(c, limits_ms[state]);
}

void http_server_resume(struct http_server *server)
{
        if (!server->paused)
                return;
        server->paused = false;
        for (size_t i = 0; i < server->n_listeners; i++)
                event_add(server->listeners[i], NULL);
        if (server->helper)
                event_add(server->helper, NULL);
}

/* ---- responses, written whole or as events ---- */

/* A response may be larger than all of the memory if no other client uses any. */
static bool is_too_much(const struct http_connection *c)
{
        size_t own = http_waiting(c);

        return http_is_full(c->server, c->principal) && own > HTTP_HELD_SMALL &&
               c->server->held - own > HTTP_HELD_SMALL;
}

void http_write(struct http_connection *c, const void *bytes, size_t n)
{
        c->server->turn_cost += n;
        if (!c->broken && bufferevent_write(c->io, bytes, n) < 0)
                c->broken = true;
        if (!c->broken && is_too_much(c)) {
                log_warning(
                        "a connection ends: clients are slow to read, and %zu bytes wait for them",
                        c->server->held);
                c->broken = true;
        }
        if (c->broken)
                event_active(&c->step, EV_TIMEOUT, 0);
}

static void end_response(struct http_connection *c)
{
        if (c->state != CONNECTION_FLUSHING)
                http_set_state(c, CONNECTION_FLUSHING);
        event_active(&c->step, EV_TIMEOUT, 0);
}

static const struct {
        int status;
        const char *reason;
} reasons[] = {
        {200, "OK"},
        {202, "Accepted"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
};

/* "OK" for 200; "" for a status that is not sent. */
static const char *reason_of(int status)
{
        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
                if (reasons[i].status == status)
                        return reasons[i].reason;
        }
        return "";
}

static int append_head(struct http_connection *c, int status, const char *headers,
                       struct buffer *to)
{
        int r = buffer_printf(to, "HTTP/1.1 %d %s\r\n", status, reason_of(status));

        /* The client's next request goes to another server, or to the next instance of this one. */
        if (service_is_stopping())
                c->keep_alive = false;
        if (r >= 0 && headers)
                r = buffer_append(to, headers, strlen(headers));
        if (r >= 0)
                r = buffer_printf(to,
                                  "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n");
        if (r >= 0 && !c->keep_alive)
                r = buffer_printf(to, "Connection: close\r\n");
        return r;
}

void http_respond(struct http_connection *c, int status, const char *headers, const char *type,
                  const char *body, size_t n)
{
        _cleanup_buffer_ struct buffer head = BUFFER_INIT(HEAD_SIZE);

        /* The body was not read: where the next request begins is not known. */
        if (c->reader.state != HTTP_READER_DONE)
                c->keep_alive = false;
        int r = append_head(c, status, headers, &head);
        if (r >= 0 && type)
                r = buffer_printf(&head, "Content-Type: %s\r\n", type);
        if (r >= 0 && status != 204)
                r = buffer_printf(&head, "Content-Length: %zu\r\n", n);
        if (r >= 0)
                r = buffer_append(&head, "\r\n", 2);
        c->broken = c->broken || r < 0;
        if (r >= 0)
                http_write(c, buffer_bytes(&head), head.length);
        /* The client reads the next response directly behind the head of a response to HEAD. */
        if (n > 0 && c->reader.request.method != HTTP_METHOD_HEAD)
                http_write(c, body, n);
        end_response(c);
}

void http_respond_text(struct http_connection *c, int status, const char *text)
{
        char line[256];
        int n = snprintf(line, sizeof(line), "%.250s\n", text);

        http_respond(c, status, NULL, "text/plain; charset=utf-8", line, (size_t)n);
}

void http_refuse(struct http_connection *c, int status, const char *reason, const char *text)
{
        metrics_add(METRIC_REFUSED, 1, reason);
        http_respond_text(c, status, text);
}

void http_respond_error(struct http_connection *c, int status, yyjson_val *id, int code,
                        const char *text)
{
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(HEAD_SIZE + HTTP_BODY_MAX);

        if (jsonrpc_append_error(&body, id, code, text, NULL, 0) < 0)
                http_respond_text(c, 500, "out of memory");
        else
                http_respond(c, status, NULL, "application/json", buffer_bytes(&body), body.length);
}

void http_respond_refusal(struct http_connection *c, yyjson_val *id,
                          const struct service_refusal *refusal)
{
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(HEAD_SIZE + HTTP_BODY_MAX);
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(HEAD_SIZE);
        char header[64];

        snprintf(header, sizeof(header), "Retry-After: %u\r\n", refusal->retry_after_s);
        int r = service_refusal_append(refusal, &data);
        if (r >= 0)
                r = jsonrpc_append_error(&body, id, SERVICE_REFUSED, refusal->text,
                                         buffer_bytes(&data), data.length);
        if (r < 0)
                http_respond_text(c, 500, "out of memory");
        else
                http_respond(c, service_refusal_status(refusal), header, "application/json",
                             buffer_bytes(&body), body.length);
}

void http_begin_events(struct http_connection *c, const char *headers)
{
        _cleanup_buffer_ struct buffer head = BUFFER_INIT(HEAD_SIZE);

        c->chunked = !c->reader.request.minor_0;
        c->keep_alive = c->keep_alive && c->chunked;
        int r = append_head(c, 200, headers, &head);
        if (r >= 0)
                r = buffer_printf(
                        &head, "Content-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n%s\r\n",
                        c->chunked ? "Transfer-Encoding: chunked\r\n" : "");
        c->broken = c->broken || r < 0;
        c->began_events = true;
        if (r >= 0)
                http_write(c, buffer_bytes(&head), head.length);
}

void http_send_events(struct http_connection *c, const struct buffer *events)
{
        char size[24];

        if (c->chunked)
                http_write(c, size,
                           (size_t)snprintf(size, sizeof(size), "%zx\r\n", events->length));
        http_write(c, buffer_bytes(events), events->length);
        if (c->chunked)
                http_write(c, "\r\n", 2);
}

void http_end_events(struct http_connection *c)
{
        if (c->chunked)
                http_write(c, "0\r\n\r\n", 5);
        end_response(c);
}
