/* States of connections, and of the listeners. */
#include "supervisor/http/state.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "base/clock.h"

struct http_connections *http_list_of(struct http_connection *c)
{
        return c->state == CONNECTION_IDLE ? &c->server->idle : &c->server->busy;
}

size_t http_waiting(const struct http_connection *c)
{
        return evbuffer_get_length(bufferevent_get_output(c->io));
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
        evtimer_add(c->timer, &t);
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

void http_server_pause(struct http_server *server)
{
        server->paused = true;
        for (size_t i = 0; i < server->n_listeners; i++)
                event_del(server->listeners[i]);
        /* The removal of a token does not wait for a place. */
        if (server->helper && !server->access.needs_token)
                event_del(server->helper);
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
