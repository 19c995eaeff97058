/* Streams of messages. */
#include "supervisor/http/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/http/event-stream.h"
#include "rpc/jsonrpc.h"
#include "supervisor/http/state.h"
#include "supervisor/mcp/peer.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/state.h"
#include "supervisor/service/phase.h"

enum { NUMBER_SIZE = 48, NAMES_SIZE = 64 + HTTP_SESSION_ID + SESSION_NAME_MAX };

static struct http_stream *stream_of(const struct mcp_sink *sink)
{
        return (struct http_stream *)(uintptr_t)sink;
}

static void drop_oldest(struct http_stream *s)
{
        struct http_event *event = TAILQ_FIRST(&s->events);

        TAILQ_REMOVE(&s->events, event, link);
        s->n_events--;
        s->event_bytes -= event->bytes.length;
        s->session->server->held -= event->bytes.length;
        buffer_done(&event->bytes);
        free(event);
}

static void release(struct mcp_sink *sink)
{
        free(stream_of(sink));
}

/* No client can come back for its events: drops them. */
static void forget(struct http_stream *s)
{
        while (!TAILQ_EMPTY(&s->events))
                drop_oldest(s);
}

/* The headers by which a balancer finds the way back: whole lines. */
static void put_names(const struct http_stream *s, const struct http_session *session,
                      char ret[NAMES_SIZE])
{
        int n = 0;

        ret[0] = '\0';
        if (session)
                n = snprintf(ret, NAMES_SIZE, "Mcp-Session-Id: %s\r\n", session->id);
        if (s->about[0])
                snprintf(ret + n, NAMES_SIZE - (size_t)n, "Cloister-Session: %s\r\n", s->about);
}

static void begin(struct http_stream *s)
{
        char header[NAMES_SIZE];

        s->began = true;
        put_names(s, s->session && !s->session->sse ? s->session : NULL, header);
        if (s->connection)
                http_begin_events(s->connection, header);
}

static int format_event(struct http_stream *s, const char *bytes, size_t n, bool first,
                        struct buffer *to)
{
        char id[NUMBER_SIZE];

        snprintf(id, sizeof(id), "%llu-%llu", (unsigned long long)s->number,
                 (unsigned long long)s->last);
        return sse_append_event(to, s->session && !s->named_events ? id : NULL,
                                s->named_events ? "message" : NULL, first ? STREAM_RETRY_MS : 0,
                                bytes, n);
}

/* Takes ownership of the bytes. */
static void keep(struct http_stream *s, struct buffer *bytes)
{
        struct http_server *server = s->session->server;
        const struct mcp_principal *principal = s->session->principal;
        struct http_event *event = calloc(1, sizeof(*event));

        if (!event) {
                buffer_done(bytes);
                return;
        }
        event->number = s->last;
        event->bytes = *bytes;
        TAILQ_INSERT_TAIL(&s->events, event, link);
        s->n_events++;
        s->event_bytes += bytes->length;
        server->held += bytes->length;
        while (s->n_events > 1 &&
               (s->n_events > STREAM_EVENTS_MAX || s->event_bytes > STREAM_BYTES_MAX ||
                http_is_full(server, principal)))
                drop_oldest(s);
        if (http_is_full(server, principal) && bytes->length > HTTP_HELD_SMALL)
                drop_oldest(s);
}

/* The first event of a resumable stream has no data: from then on the client has an id. */
static void send_event(struct http_stream *s, const char *message, size_t n, bool first)
{
        struct buffer bytes = BUFFER_INIT(MESSAGE_MAX);

        s->last++;
        if (format_event(s, message, n, first, &bytes) < 0) {
                log_warning("an event was dropped: out of memory");
                buffer_done(&bytes);
                return;
        }
        if (s->connection)
                http_send_events(s->connection, &bytes);
        if (s->session && !s->named_events && !first)
                keep(s, &bytes);
        else
                buffer_done(&bytes);
}

void http_stream_begin(struct http_stream *s)
{
        if (s->began || !s->takes_events)
                return;
        begin(s);
        /* It can be resumed. */
        if (s->session && !s->named_events)
                send_event(s, "", 0, true);
}

static void answer_json(struct http_stream *s, const struct mcp_message *message)
{
        char header[NAMES_SIZE];
        int status = 200;

        put_names(s, s->session, header);
        if (message->refusal) {
                status = service_refusal_status(message->refusal);
                snprintf(header, sizeof(header), "Retry-After: %u\r\n",
                         message->refusal->retry_after_s);
        } else if (!s->session && message->code == JSONRPC_METHOD_NOT_FOUND)
                status = 404;
        else if (!s->session && message->code == MCP_CLIENT_LACKS)
                status = 400;
        else if (!s->session && message->code != 0 && s->error_status != 0)
                status = s->error_status;
        http_respond(s->connection, status, header, "application/json", message->bytes, message->n);
}

static void send_message(struct mcp_sink *sink, const struct mcp_message *message)
{
        struct http_stream *s = stream_of(sink);

        if (s->answered || (!s->connection && !s->session))
                return;
        s->answered = message->answers && !s->main;
        if (!s->began && !s->main && message->answers && (s->takes_json || message->refusal) &&
            s->connection) {
                answer_json(s, message);
                return;
        }
        if (!s->takes_events && !message->answers)
                return;
        if (!s->main)
                http_stream_begin(s);
        send_event(s, message->bytes, message->n, false);
        if (s->answered && s->connection)
                http_end_events(s->connection);
}

static bool is_congested(const struct mcp_sink *sink)
{
        const struct http_stream *s = stream_of(sink);

        return s->connection ? http_waiting(s->connection) > OUTPUT_HIGH
                             : s->n_events >= STREAM_EVENTS_MAX / 2;
}

/* A session that ends answers what is open itself. */
static void end_unanswered(struct mcp_sink *sink)
{
        struct http_stream *s = stream_of(sink);

        if (!s->main && !s->answered && !(s->session && s->session->ending))
                http_stream_end(s);
}

/* A stream of events can carry a request; a legacy client that is away may come back for it. */
static bool takes_requests(const struct mcp_sink *sink)
{
        const struct http_stream *s = stream_of(sink);

        return s->takes_events && !s->answered && (s->connection || s->session);
}

/* The first call of a batch names it. A name that could split the header is not a valid name of a session. */
static void name_session(struct mcp_sink *sink, const char *session)
{
        struct http_stream *s = stream_of(sink);

        if (!s->main && !s->about[0] && session_name_valid(session, strlen(session)))
                snprintf(s->about, sizeof(s->about), "%s", session);
}

static const struct mcp_sink_calls calls = {
        .has_refusals = true,
        .send = send_message,
        .unanswered = end_unanswered,
        .congested = is_congested,
        .takes_requests = takes_requests,
        .names_session = name_session,
        .release = release,
};

struct http_stream *http_stream_new(struct http_connection *connection)
{
        struct http_stream *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        *s = (struct http_stream){.sink = {&calls, 1}, .connection = connection};
        TAILQ_INIT(&s->events);
        if (connection)
                connection->stream = s;
        return s;
}

/* Runs from the loop, never from inside the MCP server, which may use the peer. */
void http_stream_detach(struct http_stream *s)
{
        struct http_session *session = s->session;

        s->connection->stream = NULL;
        s->connection = NULL;
        s->peer = mcp_peer_free(s->peer);
        bool ends = session && session->sse && s->main;
        mcp_sink_unref(&s->sink);
        if (ends)
                http_session_free(session);
}

bool http_stream_is_over(const struct http_stream *s)
{
        unsigned own = (s->connection ? 1 : 0) + (s->session ? 1 : 0);

        return !s->main && !s->answered && s->sink.refs <= own;
}

void http_stream_end(struct http_stream *s)
{
        s->answered = true;
        if (!s->connection)
                return;
        if (!s->began && !s->takes_events) {
                http_respond(s->connection, 202, NULL, NULL, NULL, 0);
                return;
        }
        if (!s->began)
                begin(s);
        http_end_events(s->connection);
}

void http_stream_attach(struct http_stream *s, struct http_connection *connection, uint64_t after)
{
        struct http_event *event;
        bool was_new = s->last == 0;

        mcp_sink_ref(&s->sink);
        s->connection = connection;
        connection->stream = s;
        s->takes_events = true;
        begin(s);
        if (was_new)
                send_event(s, "", 0, true);
        TAILQ_FOREACH (event, &s->events, link) {
                if (event->number > after)
                        http_send_events(connection, &event->bytes);
        }
        if (s->answered)
                http_end_events(connection);
}

/* ---- sessions of legacy clients ---- */

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
        node_mint(session->id);
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

        forget(s);
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
                forget(s);
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
