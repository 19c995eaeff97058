/*
 * One connection.
 *
 * Theory of operation. Requests are read one at a time: while one is answered, bytes behind it are
 * read up to a limit and stay where they are, and the end of the stream is noticed, which cancels a
 * modern request. A response is written whole, or as events. What ends a response or a connection is
 * done from the loop (the event `step`), because messages come from inside other parts of the
 * broker, which still use what would be freed.
 *
 * One timer has the deadline of the state. While a response is written it ticks: a client that has
 * read almost nothing since the last tick is dropped.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/http/response.h"
#include "rpc/jsonrpc.h"
#include "supervisor/http/http-internal.h"

enum { PIECE_MAX = 16 * 1024, HEAD_SIZE = 8 * 1024 };

static struct http_connections *list_of(struct http_connection *c)
{
        return c->state == CONNECTION_IDLE ? &c->server->idle : &c->server->busy;
}

static size_t waiting(const struct http_connection *c)
{
        return evbuffer_get_length(bufferevent_get_output(c->io));
}

void http_hold_body(struct http_connection *c)
{
        size_t n = c->reader.request.body.length;

        c->server->held += n - c->held;
        c->held = n;
}

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *data)
{
        struct http_connection *c = data;

        c->written += info->n_deleted;
        c->server->held += info->n_added - info->n_deleted;
}

static void set_deadline(struct http_connection *c, uint64_t ms)
{
        struct timeval t = clock_timeval_ms(ms);

        c->deadline_us = clock_us() + ms * 1000;
        evtimer_add(c->timer, &t);
}

static void set_state(struct http_connection *c, enum http_connection_state state)
{
        static const uint64_t limits_ms[] = {
                [CONNECTION_IDLE] = HTTP_IDLE_MS,      [CONNECTION_READING] = HTTP_HEAD_MS,
                [CONNECTION_ANSWERING] = HTTP_TICK_MS, [CONNECTION_FLUSHING] = HTTP_TICK_MS,
                [CONNECTION_CLOSING] = HTTP_LINGER_MS,
        };

        TAILQ_REMOVE(list_of(c), c, link);
        c->state = state;
        TAILQ_INSERT_TAIL(list_of(c), c, link);
        c->written_before = c->written;
        set_deadline(c, limits_ms[state]);
}

void http_connection_free(struct http_connection *c)
{
        struct http_server *server = c->server;

        if (c->stream)
                http_stream_detach(c->stream);
        c->parsing = large_line_cancel(c->parsing);
        TAILQ_REMOVE(list_of(c), c, link);
        server->n_connections--;
        event_free(c->timer);
        event_free(c->step);
        evbuffer_remove_cb(bufferevent_get_output(c->io), on_output, c);
        server->held -= waiting(c) + c->held;
        bufferevent_free(c->io);
        http_reader_done(&c->reader);
        free(c);
        http_server_resume(server);
}

/* ---- writing ---- */

/* A response may be larger than all of the memory if nobody else has any. */
static bool is_too_much(const struct http_connection *c)
{
        size_t own = waiting(c);

        return http_is_full(c->server) && own > HTTP_HELD_SMALL &&
               c->server->held - own > HTTP_HELD_SMALL;
}

static void write_bytes(struct http_connection *c, const void *bytes, size_t n)
{
        if (!c->broken && bufferevent_write(c->io, bytes, n) < 0)
                c->broken = true;
        if (!c->broken && is_too_much(c)) {
                log_warning(
                        "a connection ends: clients are slow to read, and %zu bytes wait for them",
                        c->server->held);
                c->broken = true;
        }
        if (c->broken)
                event_active(c->step, EV_TIMEOUT, 0);
}

static void end_response(struct http_connection *c)
{
        if (c->state != CONNECTION_FLUSHING)
                set_state(c, CONNECTION_FLUSHING);
        event_active(c->step, EV_TIMEOUT, 0);
}

static int append_head(struct http_connection *c, int status, const char *headers,
                       struct buffer *to)
{
        int r = http_append_status(to, status);

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
                write_bytes(c, buffer_bytes(&head), head.length);
        /* What follows a response to HEAD is the next response. */
        if (n > 0 && c->reader.request.method != HTTP_METHOD_HEAD)
                write_bytes(c, body, n);
        end_response(c);
}

void http_respond_text(struct http_connection *c, int status, const char *text)
{
        char line[256];
        int n = snprintf(line, sizeof(line), "%.250s\n", text);

        http_respond(c, status, NULL, "text/plain; charset=utf-8", line, (size_t)n);
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
                write_bytes(c, buffer_bytes(&head), head.length);
}

void http_send_events(struct http_connection *c, const struct buffer *events)
{
        char size[24];

        if (c->chunked)
                write_bytes(c, size,
                            (size_t)snprintf(size, sizeof(size), "%zx\r\n", events->length));
        write_bytes(c, buffer_bytes(events), events->length);
        if (c->chunked)
                write_bytes(c, "\r\n", 2);
}

void http_end_events(struct http_connection *c)
{
        if (c->chunked)
                write_bytes(c, "0\r\n\r\n", 5);
        end_response(c);
}

bool http_is_congested(const struct http_connection *c)
{
        return waiting(c) > OUTPUT_HIGH;
}

bool http_has_too_many(const struct http_connection *c)
{
        const struct http_connection *other;
        size_t n = 0;

        if (!c->principal || c->server->n_connections <= HTTP_CONNECTIONS_OF_ONE)
                return false;
        TAILQ_FOREACH (other, &c->server->busy, link)
                n += other->principal == c->principal;
        return n > HTTP_CONNECTIONS_OF_ONE;
}

/* ---- reading ---- */

static void refuse(struct http_connection *c, const struct error *err)
{
        c->keep_alive = false;
        http_respond_text(c, c->reader.status, err->text);
}

static void head_complete(struct http_connection *c)
{
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        const struct http_request *request = &c->reader.request;

        c->keep_alive = request->keep_alive;
        if (!http_exchange_head(c))
                return;
        set_deadline(c, HTTP_BODY_MS);
        if (request->expects_continue && evbuffer_get_length(bufferevent_get_input(c->io)) == 0)
                write_bytes(c, go_on, sizeof(go_on) - 1);
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
                set_state(c, CONNECTION_READING);
        const char *bytes = n > 0 ? (const char *)evbuffer_pullup(input, (ssize_t)n) : "";
        ssize_t used = http_reader_feed(&c->reader, bytes, n, &err);
        if (used < 0) {
                refuse(c, &err);
                return false;
        }
        evbuffer_drain(input, (size_t)used);
        http_hold_body(c);
        if (c->held > HTTP_HELD_SMALL && http_is_full(c->server)) {
                c->keep_alive = false;
                http_respond_text(c, 503, "too much is being sent at once: try again later");
                return false;
        }
        if (c->reader.state == HTTP_READER_HEADERS)
                head_complete(c);
        else if (c->reader.state == HTTP_READER_DONE) {
                set_state(c, CONNECTION_ANSWERING);
                http_exchange_take(c);
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
        if (c->stream) {
                http_stream_detach(c->stream);
                c->stream = NULL;
        }
        if (waiting(c) > 0)
                return;
        if (!c->keep_alive) {
                /* Closing with unread bytes would reset the connection before the client has read. */
                shutdown(bufferevent_getfd(c->io), SHUT_WR);
                c->principal = NULL;
                set_state(c, CONNECTION_CLOSING);
                on_readable(c->io, c);
                return;
        }
        http_reader_next(&c->reader, HTTP_BODY_MAX);
        http_hold_body(c);
        c->began_events = c->chunked = false;
        c->principal = NULL;
        set_state(c, CONNECTION_IDLE);
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

/* A tick: returns whether the client has read enough. */
static bool reads(const struct http_connection *c)
{
        return waiting(c) == 0 || c->written - c->written_before >= HTTP_TICK_BYTES;
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        static const char comment[] = ":\n\n";
        struct http_connection *c = data;
        struct buffer quiet = {.data = (char *)(uintptr_t)comment, .length = sizeof(comment) - 1};

        if ((c->state != CONNECTION_ANSWERING && c->state != CONNECTION_FLUSHING) || !reads(c)) {
                if (c->state == CONNECTION_READING)
                        log_debug("a connection was dropped: its request did not come in time");
                http_connection_free(c);
                return;
        }
        if (c->state == CONNECTION_ANSWERING && c->stream && http_stream_is_over(c->stream))
                http_stream_end(c->stream);
        else if (c->state == CONNECTION_ANSWERING && c->stream)
                http_stream_begin(c->stream);
        if (c->state == CONNECTION_ANSWERING && c->began_events && waiting(c) == 0)
                http_send_events(c, &quiet);
        c->written_before = c->written;
        set_deadline(c, HTTP_TICK_MS);
}

void http_connection_new(struct http_server *server, int fd, struct mcp_principal *user)
{
        struct http_connection *c = calloc(1, sizeof(*c));
        struct bufferevent *io = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);

        if (c)
                *c = (struct http_connection){
                        .server = server,
                        .io = io,
                        .user = user,
                        .timer = evtimer_new(server->base, on_timer, c),
                        .step = event_new(server->base, -1, 0, on_step, c),
                };
        if (!c || !io || !c->timer || !c->step ||
            !evbuffer_add_cb(bufferevent_get_output(io), on_output, c)) {
                if (c && c->timer)
                        event_free(c->timer);
                if (c && c->step)
                        event_free(c->step);
                if (io)
                        bufferevent_free(io);
                else
                        close(fd);
                free(c);
                return;
        }
        http_reader_init(&c->reader, HTTP_BODY_MAX);
        TAILQ_INSERT_TAIL(&server->idle, c, link);
        server->n_connections++;
        set_deadline(c, HTTP_IDLE_MS);
        bufferevent_setwatermark(io, EV_READ, 0, INPUT_HIGH);
        bufferevent_setcb(io, on_readable, on_written, on_event, c);
        bufferevent_enable(io, EV_READ | EV_WRITE);
}
