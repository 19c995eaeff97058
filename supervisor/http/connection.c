/* Connections. */
#include "supervisor/http/connection.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "supervisor/http/exchange.h"
#include "supervisor/http/response.h"
#include "supervisor/http/session.h"
#include "supervisor/http/stream.h"

enum { PIECE_MAX = 16 * 1024 };

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *data)
{
        struct http_connection *c = data;

        c->written += info->n_deleted;
        c->server->held += info->n_added - info->n_deleted;
}

static void detach(struct http_connection *c)
{
        struct http_session *ended = c->stream ? http_stream_detach(c->stream) : NULL;

        if (ended)
                http_session_free(ended);
}

void http_connection_free(struct http_connection *c)
{
        struct http_server *server = c->server;

        detach(c);
        c->parsing = large_line_cancel(c->parsing);
        TAILQ_REMOVE(http_list_of(c), c, link);
        server->n_connections--;
        event_free(c->timer);
        event_free(c->step);
        evbuffer_remove_cb(bufferevent_get_output(c->io), on_output, c);
        server->held -= http_waiting(c) + c->held;
        bufferevent_free(c->io);
        http_reader_done(&c->reader);
        free(c);
        http_server_resume(server);
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
                http_set_state(c, CONNECTION_ANSWERING);
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
        detach(c);
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

/* A tick: returns whether the client has read enough. */
static bool reads(const struct http_connection *c)
{
        return http_waiting(c) == 0 || c->written - c->written_before >= HTTP_TICK_BYTES;
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
        if (c->state == CONNECTION_ANSWERING && c->began_events && http_waiting(c) == 0)
                http_send_events(c, &quiet);
        c->written_before = c->written;
        http_set_deadline(c, HTTP_TICK_MS);
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
        http_set_deadline(c, HTTP_IDLE_MS);
        bufferevent_setwatermark(io, EV_READ, 0, INPUT_HIGH);
        bufferevent_setcb(io, on_readable, on_written, on_event, c);
        bufferevent_enable(io, EV_READ | EV_WRITE);
}
