/* Streams of the live view. */
#include "supervisor/http/view.h"

#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "rpc/http/event-stream.h"
#include "supervisor/http/state.h"
#include "supervisor/mcp/state.h"
#include "supervisor/service/phase.h"
#include "supervisor/session/overview.h"
#include "supervisor/session/sessions-owner.h"

static int append_state(const struct http_server *server, struct buffer *to)
{
        struct sessions *sessions = server->mcp->sessions;
        _cleanup_buffer_ struct buffer list = BUFFER_INIT(HTTP_VIEW_BYTES_MAX);
        struct sessions_count count;
        struct json_out out = {.to = to};

        sessions_count(sessions, &count);
        int r = sessions_append_view(sessions, &list);
        if (r < 0)
                return r;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "phase", service_phase_name(service_phase()));
        json_out_int(&out, "places", (int64_t)count.max);
        json_out_int(&out, "live", (int64_t)count.live);
        json_out_int(&out, "ready", (int64_t)count.spares_ready);
        json_out_buffer(&out, "sessions", &list);
        json_out_end(&out, '}');
        return out.error;
}

static int append_event(const struct http_server *server, struct buffer *to)
{
        _cleanup_buffer_ struct buffer state = BUFFER_INIT(HTTP_VIEW_BYTES_MAX);

        int r = append_state(server, &state);
        return r < 0 ? r
                     : sse_append_event(to, NULL, "state", 0, buffer_bytes(&state), state.length);
}

static void send_to(struct http_connection *c, const struct buffer *event)
{
        if (http_waiting(c) == 0)
                http_send_events(c, event);
}

static void set_timer(struct http_server *server)
{
        const struct timeval in = clock_timeval_ms(HTTP_VIEW_MS);

        evtimer_add(server->views_timer, &in);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct http_server *server = data;
        _cleanup_buffer_ struct buffer event = BUFFER_INIT(HTTP_VIEW_BYTES_MAX);
        bool failed = append_event(server, &event) < 0;

        for (size_t i = 0; i < server->n_views && !failed; i++)
                send_to(server->views[i], &event);
        if (failed)
                log_warning("the live view has no event: it is too large, or there is no memory");
        if (server->n_views > 0)
                set_timer(server);
}

/* The stream ends from the loop, like every response. */
static void end_view(struct http_connection *c)
{
        http_view_detach(c);
        http_end_events(c);
}

void http_view_detach(struct http_connection *c)
{
        struct http_server *server = c->server;
        size_t kept = 0;

        for (size_t i = 0; i < server->n_views; i++) {
                if (server->views[i] != c)
                        server->views[kept++] = server->views[i];
        }
        server->n_views = kept;
}

void http_views_end(struct http_server *server)
{
        while (server->n_views > 0) {
                server->views[0]->keep_alive = false;
                end_view(server->views[0]);
        }
}

void http_on_view(struct http_connection *c)
{
        struct http_server *server = c->server;
        _cleanup_buffer_ struct buffer event = BUFFER_INIT(HTTP_VIEW_BYTES_MAX);

        if (c->reader.request.method == HTTP_METHOD_HEAD) {
                http_respond(c, 200, NULL, "text/event-stream", NULL, 0);
                return;
        }
        if (!server->views_timer)
                server->views_timer = evtimer_new(server->base, on_timer, server);
        if (!server->views_timer || append_event(server, &event) < 0) {
                http_respond_text(c, 503, "the state is too large, or there is no memory");
                return;
        }
        if (server->n_views == HTTP_VIEWS_MAX)
                end_view(server->views[0]);
        server->views[server->n_views++] = c;
        http_begin_events(c, NULL);
        http_send_events(c, &event);
        set_timer(server);
}
