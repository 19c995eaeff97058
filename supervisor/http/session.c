/* Sessions of legacy clients. */
#include "supervisor/http/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unguessable.h"
#include "rpc/jsonrpc.h"
#include "supervisor/http/response.h"
#include "supervisor/http/stream.h"
#include "supervisor/mcp/peer.h"
#include "supervisor/mcp/principal.h"

/* A connection reads it, or a request of it has no answer yet. */
static bool is_read(const struct http_session *session)
{
        const struct http_stream *s;

        if (session->main->connection)
                return true;
        TAILQ_FOREACH (s, &session->streams, link) {
                if (s->connection || !s->answered)
                        return true;
        }
        return false;
}

/* The longest unused session that is not read: of this principal or, with NULL, of those that have the
 * most. */
static struct http_session *oldest(struct http_server *server, const struct mcp_principal *of)
{
        struct http_session *session, *found = NULL;

        TAILQ_FOREACH (session, &server->sessions, link) {
                if ((of && session->principal != of) || is_read(session))
                        continue;
                if (!found || session->principal->n_clients > found->principal->n_clients)
                        found = session;
        }
        return found;
}

static bool make_place(struct http_server *server, const struct mcp_principal *principal)
{
        bool has_enough = principal->n_clients >= HTTP_SESSIONS_OF_ONE;

        if (!has_enough && server->n_sessions < HTTP_SESSIONS_MAX)
                return true;
        struct http_session *found = oldest(server, has_enough ? principal : NULL);
        if (!found)
                return false;
        http_session_free(found);
        return true;
}

struct http_session *http_session_new(struct http_server *server, struct mcp_principal *principal)
{
        struct error err = {};

        if (!make_place(server, principal))
                return NULL;
        struct http_session *session = calloc(1, sizeof(*session));
        struct http_stream *main = http_stream_new(NULL);
        if (!session || !main) {
                free(session);
                free(main);
                return NULL;
        }
        *session = (struct http_session){
                .server = server, .principal = principal, .main = main, .used_us = clock_us()};
        unguessable(session->id);
        TAILQ_INIT(&session->streams);
        main->main = main->takes_events = true;
        main->session = session;
        if (mcp_peer_new(&session->peer, server->mcp, principal, &main->sink, &err) < 0) {
                log_warning("%s", err.text);
                mcp_sink_unref(&main->sink);
                free(session);
                return NULL;
        }
        TAILQ_INSERT_TAIL(&server->sessions, session, link);
        server->n_sessions++;
        principal->n_clients++;
        return session;
}

struct http_session *http_session_find(struct http_server *server,
                                       const struct mcp_principal *principal, const char *id)
{
        struct http_session *session;

        TAILQ_FOREACH (session, &server->sessions, link) {
                if (session->principal != principal || strcmp(session->id, id) != 0)
                        continue;
                session->used_us = clock_us();
                TAILQ_REMOVE(&server->sessions, session, link);
                TAILQ_INSERT_TAIL(&server->sessions, session, link);
                return session;
        }
        return NULL;
}

/* The connection's response ends; the stream is not kept. */
static void leave(struct http_stream *s)
{
        struct http_connection *connection = s->connection;

        http_stream_forget(s);
        s->session = NULL;
        if (connection && s->answered)
                ; /* its response has ended */
        else if (connection && s->began)
                http_end_events(connection);
        else if (connection)
                http_respond_error(connection, 404, NULL, JSONRPC_INVALID_REQUEST,
                                   "the session has ended");
        mcp_sink_unref(&s->sink);
}

void http_session_free(struct http_session *session)
{
        session->ending = true;
        session->peer = mcp_peer_free(session->peer);
        TAILQ_REMOVE(&session->server->sessions, session, link);
        session->server->n_sessions--;
        session->principal->n_clients--;
        while (!TAILQ_EMPTY(&session->streams)) {
                struct http_stream *s = TAILQ_FIRST(&session->streams);
                TAILQ_REMOVE(&session->streams, s, link);
                leave(s);
        }
        leave(session->main);
        free(session);
}

void http_session_keep(struct http_session *session, struct http_stream *stream)
{
        struct http_stream *s, *after;

        stream->number = ++session->last_number;
        stream->session = session;
        mcp_sink_ref(&stream->sink);
        TAILQ_INSERT_TAIL(&session->streams, stream, link);
        session->n_streams++;
        for (s = TAILQ_FIRST(&session->streams); s && session->n_streams > HTTP_SESSION_STREAMS;
             s = after) {
                after = TAILQ_NEXT(s, link);
                if (!s->answered || s->connection)
                        continue;
                TAILQ_REMOVE(&session->streams, s, link);
                session->n_streams--;
                http_stream_forget(s);
                s->session = NULL;
                mcp_sink_unref(&s->sink);
        }
}

struct http_stream *http_session_stream(struct http_session *session, const char *event,
                                        uint64_t *after)
{
        unsigned long long number, last;
        struct http_stream *s;
        char rest;

        if (strspn(event, "0123456789-") != strlen(event) ||
            sscanf(event, "%llu-%llu%c", &number, &last, &rest) != 2)
                return NULL;
        *after = last;
        if (number == 0)
                return session->main;
        TAILQ_FOREACH (s, &session->streams, link) {
                if (s->number == number)
                        return s;
        }
        return NULL;
}

void http_sessions_expire(struct http_server *server)
{
        uint64_t now = clock_us();
        struct http_session *session, *after;

        for (session = TAILQ_FIRST(&server->sessions); session; session = after) {
                after = TAILQ_NEXT(session, link);
                if (now - session->used_us > HTTP_SESSION_IDLE_S * UINT64_C(1000000) &&
                    !is_read(session))
                        http_session_free(session);
        }
}
