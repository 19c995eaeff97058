/*
 * Connections of cloister-inject.
 *
 *     state    what happens                                                 next
 *     READING  a request is read from the client, with its body, or with    ASKING, CLOSING
 *              the first INJECT_WHOLE_MAX bytes of it
 *     ASKING   the broker decides about method, host and path               SENDING, CLOSING
 *     SENDING  the request and the rest of its body go to the server,       READING, CLOSING, CUT
 *              its response to the client
 *     CLOSING  the rest of what the client gets is written                  it ends
 *     CUT      the same, of a response that is not complete                 it ends without the end of TLS
 *
 * One step after another is tried until none moves anything (pump()); then the events are awaited that TLS has named. The server's
 * handshake begins with the first request that is allowed.
 */
#include "supervisor/inject/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/share.h"
#include "supervisor/inject/forward.h"
#include "supervisor/inject/response.h"
#include "supervisor/inject/tls.h"

enum connection_state { READING, ASKING, SENDING, CLOSING, CUT };

enum {
        PIECE = 16 * 1024,
        CLIENT_MAX = 128 * 1024, /* that wait for the client until the server is read again */
        CLIENT_ALL_MAX = 32 * 1024 * 1024, /* a piece of values that become long placeholders */
        CHUNK_PIECES = 3,                  /* of the response, that are a chunk for the client */
        TURNS = 32,
        REQUEST_MS = 60000, /* from its first byte on, and for the handshake */
        IDLE_MS = 300000,
        ASK_MS = 30000,
        CLOSING_MS = 5000,
};

struct inject_connection {
        struct inject_session *session;
        struct inject_connection *next;
        size_t host;
        enum connection_state state;
        struct tls client, server; /* server: ssl NULL until its handshake begins */
        struct event *events[4], *closed, *timer, *again;
        struct buffer in, to_client, to_server;
        struct http_reader reader;
        size_t body;      /* bytes of it that are counted */
        bool has_request; /* a byte of one was read */
        bool keeps_alive, has_response;
        bool is_shut; /* no more bytes follow for the client */
        uint32_t serial;
        bool is_recorded;  /* the broker waits for the end of the request … */
        bool is_sent;      /* … of which the server may have got a part */
        bool is_cut;       /* the server takes no more of it; its response may be there already */
        bool is_uploading; /* the rest of its body follows */
        struct forward_stream stream;
        struct response response;
};

static const struct inject_host *host_of(const struct inject_connection *c)
{
        return &c->session->inject->settings->hosts[c->host];
}

static void clear(struct buffer *b)
{
        if (b->length > 0)
                explicit_bzero(buffer_bytes(b), b->length);
        buffer_done(b);
}

static void count_body(struct inject_connection *c, size_t n)
{
        c->session->inject->bodies += n - c->body;
        c->session->bodies += n - c->body;
        c->body = n;
}

/* The counted bodies, this one among them, are more than those of its principal may be. */
static bool is_full(const struct inject_connection *c)
{
        return c->body > 0 && !share_allows(inject_use_of_principal(c->session).bodies,
                                            c->session->inject->bodies, INJECT_BODIES_MAX, 0);
}

static const char too_many[] = "has too many large requests at a time";

/* how: the status of the whole response, or 0. */
static void tell_end(struct inject_connection *c, unsigned how)
{
        struct inject_event event = {.kind = INJECT_ENDED,
                                     .serial = c->serial,
                                     .session = c->session->id,
                                     .status = (uint16_t)(how > 0      ? how
                                                          : c->is_sent ? INJECT_IN_DOUBT
                                                                       : INJECT_NOT_SENT),
                                     .bytes = c->has_response ? c->response.bytes : 0};

        /* Without room, the request stays without an answer, which is in doubt too. */
        if (c->is_recorded)
                (void)fd_send(c->session->inject->broker, &event,
                              offsetof(struct inject_event, certificate), NULL, 0, MSG_DONTWAIT);
        c->is_recorded = false;
}

static void connection_free(struct inject_connection *c)
{
        tell_end(c, 0);
        loop_free_events(c->events, ARRAY_SIZE(c->events));
        loop_free_events((struct event *[]){c->closed, c->timer, c->again}, 3);
        tls_done(&c->client);
        tls_done(&c->server);
        count_body(c, 0);
        http_reader_done(&c->reader);
        buffer_done(&c->stream.held);
        if (c->has_response)
                response_done(&c->response);
        buffer_done(&c->in);
        buffer_done(&c->to_client);
        clear(&c->to_server);
        c->session->n_connections--;
        c->session->inject->n_connections--;
        free(c);
}

static void end(struct inject_connection *c)
{
        struct inject_connection **at = &c->session->connections;

        while (*at != c)
                at = &(*at)->next;
        *at = c->next;
        connection_free(c);
}

/* The next request begins, or none follows. */
static void end_request(struct inject_connection *c)
{
        bool streams = forward_streams(c->session->inject->settings, c->host);

        count_body(c, 0);
        buffer_done(&c->stream.held);
        c->is_uploading = false;
        http_reader_next(&c->reader, streams ? SIZE_MAX : INJECT_BODY_MAX);
}

static void set_timer(struct inject_connection *c, uint64_t ms)
{
        struct timeval after = clock_timeval_ms(ms);

        event_add(c->timer, &after);
}

/* ---- answers of our own ---- */

static const char *phrase_of(int status)
{
        static const struct {
                int status;
                const char *phrase;
        } phrases[] = {
                {400, "Bad Request"},        {403, "Forbidden"},
                {413, "Content Too Large"},  {414, "URI Too Long"},
                {417, "Expectation Failed"}, {431, "Request Header Fields Too Large"},
                {501, "Not Implemented"},    {503, "Service Unavailable"},
                {504, "Gateway Timeout"},    {505, "HTTP Version Not Supported"},
                {502, "Bad Gateway"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(phrases); i++)
                if (phrases[i].status == status)
                        return phrases[i].phrase;
        return "Bad Gateway";
}

/* clause: follows the host's name. */
static void answer(struct inject_connection *c, int status, const char *clause)
{
        const struct inject_host *host = host_of(c);
        const char *profile = c->session->profile;
        char line[700];

        bool is_inspected = c->session->inject->settings->inspected >> c->host & 1;
        snprintf(line, sizeof(line), "%s:%u %s (profile \"%s\", %s)", host->name, host->port,
                 clause, profile, is_inspected ? "inspect" : "secrets");
        log_warning("session %llu: %s", (unsigned long long)c->session->id, line);
        tell_end(c, 0);
        end_request(c);
        clear(&c->to_server);
        c->state = CLOSING;
        set_timer(c, CLOSING_MS);
        buffer_printf(
                &c->to_client,
                "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
                status, phrase_of(status), strlen(line) + 1, line);
}

/* The client must not take half a response for a whole one: there is no end of its body, and none of TLS. */
static void stop(struct inject_connection *c, int status, const char *clause)
{
        if (!c->has_response || !c->response.has_head) {
                answer(c, status, clause);
                return;
        }
        log_warning("session %llu: %s %s", (unsigned long long)c->session->id, host_of(c)->name,
                    clause);
        (void)response_flush(&c->response);
        tell_end(c, 0);
        end_request(c);
        clear(&c->to_server);
        c->state = CUT;
        set_timer(c, CLOSING_MS);
}

static void fail(struct inject_connection *c, const char *clause)
{
        stop(c, 502, clause);
}

/* ---- a request ---- */

static int ask(struct inject_connection *c)
{
        struct inject *inject = c->session->inject;
        struct inject_event event = {.kind = INJECT_ASK,
                                     .serial = ++inject->last_serial,
                                     .session = c->session->id,
                                     .port = host_of(c)->port};

        snprintf(event.method, sizeof(event.method), "%s", http_request_method(&c->reader));
        snprintf(event.host, sizeof(event.host), "%s", host_of(c)->name);
        snprintf(event.path, sizeof(event.path), "%s", c->reader.request.path);
        c->serial = event.serial;
        c->state = ASKING;
        set_timer(c, ASK_MS);
        return fd_send(inject->broker, &event, offsetof(struct inject_event, certificate), NULL, 0,
                       MSG_DONTWAIT);
}

static void take_head(struct inject_connection *c)
{
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        struct error why = {};

        if (forward_check(host_of(c), &c->reader, &why) < 0)
                answer(c, 403, why.text);
        else if (c->reader.request.expects_continue)
                buffer_append(&c->to_client, go_on, strlen(go_on));
}

/* The bytes of c->in go to the reader. False: it was refused, and the client has the reason. */
static bool read_on(struct inject_connection *c)
{
        struct error why = {};
        char text[400];

        ssize_t used = http_reader_feed(&c->reader, buffer_bytes(&c->in), c->in.length, &why);
        if (used < 0) {
                snprintf(text, sizeof(text), "got a request that is not taken: %s", why.text);
                stop(c, used == -ENOMEM ? 503 : c->reader.status, text);
                return false;
        }
        buffer_consume(&c->in, (size_t)used);
        return true;
}

static void feed(struct inject_connection *c)
{
        if (!c->has_request) {
                c->has_request = true;
                set_timer(c, REQUEST_MS);
        }
        if (!read_on(c))
                return;
        size_t n = c->reader.request.body.length;
        count_body(c, n);
        bool is_enough = c->reader.state == HTTP_READER_DONE ||
                         (n > INJECT_WHOLE_MAX &&
                          forward_streams(c->session->inject->settings, c->host));
        if (is_full(c))
                answer(c, 503, too_many);
        else if (c->reader.state == HTTP_READER_HEADERS)
                take_head(c);
        else if (is_enough && ask(c) < 0)
                answer(c, 503, "could not be asked about");
}

/* The server has ended the connection between two requests, or sent bytes without a request. */
static bool server_is_gone(struct inject_connection *c)
{
        char byte;

        return c->server.ssl && tls_read(&c->server, &byte, 1) != 0;
}

/* Returns 1: there are bytes in c->in; 0: not now; negative: the client has ended the connection. */
static int read_client(struct inject_connection *c)
{
        char piece[PIECE];

        if (c->in.length > 0)
                return 1;
        ssize_t n = tls_read(&c->client, piece, sizeof(piece));
        if (n <= 0)
                return (int)n;
        return buffer_append(&c->in, piece, (size_t)n) < 0 ? -ENOMEM : 1;
}

static int step_request(struct inject_connection *c, bool *moved)
{
        if (!c->has_request && server_is_gone(c))
                return -EIO;
        int r = c->reader.state == HTTP_READER_HEADERS ? 1 : read_client(c);
        if (r <= 0)
                return r;
        *moved = true;
        feed(c);
        return 0;
}

/* ---- the exchange ---- */

static int begin_exchange(struct inject_connection *c, struct error *why)
{
        struct inject *inject = c->session->inject;
        bool is_head = c->reader.request.method == HTTP_METHOD_HEAD;
        bool is_old = c->reader.request.minor_0;
        bool is_whole = c->reader.state == HTTP_READER_DONE;
        bool has_body = c->reader.request.body.length > 0;

        int r = forward_append(c->session, c->host, &c->reader, is_whole ? NULL : &c->stream,
                               &c->to_server, why);
        if (r >= 0 && !is_whole)
                r = forward_more(c->session, c->host, &c->reader, &c->stream, &c->to_server, why);
        if (r < 0)
                return r;
        c->keeps_alive = c->reader.request.keep_alive;
        c->is_uploading = !is_whole;
        if (is_whole)
                end_request(c);
        /* A whole body stays here until the server has read it, and may have become longer. */
        count_body(c, is_whole && has_body ? c->to_server.length : 0);
        if (is_full(c))
                return -EDQUOT;
        if (!c->server.ssl)
                c->server.ssl = authority_connect(inject->authority, host_of(c)->name,
                                                  c->server.fd);
        struct mask_stream *mask = mask_stream_new(inject->mask, c->session->placeholders);
        if (!c->server.ssl || !mask) {
                mask_stream_free(mask);
                return -ENOMEM;
        }
        response_init(&c->response, mask, &c->to_client, is_head, is_old);
        c->has_response = true;
        c->state = SENDING;
        set_timer(c, IDLE_MS);
        return 0;
}

static void end_exchange(struct inject_connection *c)
{
        bool continues = c->response.keeps_alive && c->keeps_alive && !c->is_cut &&
                         !c->is_uploading && c->to_server.length == 0;

        tell_end(c, c->response.status);
        response_done(&c->response);
        c->has_response = c->has_request = false;
        if (c->is_uploading)
                end_request(c);
        c->state = continues ? READING : CLOSING;
        set_timer(c, continues ? IDLE_MS : CLOSING_MS);
}

static int step_handshake(struct inject_connection *c, bool *moved)
{
        char text[300];

        if (c->server.is_ready)
                return 1;
        int r = tls_handshake(&c->server);
        *moved |= r > 0;
        if (r >= 0)
                return r;
        const char *problem = tls_certificate_problem(&c->server);
        snprintf(text, sizeof(text), "%s%s",
                 problem ? "has a certificate that is not valid for it: "
                         : "could not be reached by TLS",
                 problem ? problem : "");
        fail(c, text);
        return 0;
}

static void step_send(struct inject_connection *c, bool *moved)
{
        while (c->to_server.length > 0) {
                ssize_t n = tls_write(&c->server, buffer_bytes(&c->to_server), c->to_server.length);
                c->is_sent |= n > 0;
                c->is_cut = n < 0;
                if (n < 0)
                        break;
                if (n == 0)
                        return;
                explicit_bzero(buffer_bytes(&c->to_server), (size_t)n);
                buffer_consume(&c->to_server, (size_t)n);
                if (c->body > 0)
                        count_body(c, c->to_server.length);
                *moved = true;
        }
        clear(&c->to_server);
        count_body(c, 0);
}

/* A piece of the body, once the server has taken the previous piece. */
static int step_upload(struct inject_connection *c, bool *moved)
{
        struct error why = {};

        if (!c->is_uploading || c->is_cut || c->to_server.length > 0)
                return 0;
        int r = read_client(c);
        if (r <= 0)
                return r;
        *moved = true;
        if (!read_on(c))
                return 0;
        bool is_last = c->reader.state == HTTP_READER_DONE;
        r = forward_more(c->session, c->host, &c->reader, &c->stream, &c->to_server, &why);
        if (r < 0)
                stop(c, r == -EACCES ? 403 : 503, r == -EACCES ? why.text : "has no memory");
        else if (is_last)
                end_request(c);
        return 0;
}

/* A piece of the response. Returns 1: more may follow; 0: not now, or it has ended; -EBADMSG: response.why. */
static int receive_piece(struct inject_connection *c, bool *moved)
{
        char piece[PIECE];

        ssize_t n = tls_read(&c->server, piece, sizeof(piece));
        if (n == 0)
                return 0;
        *moved = true;
        int r = n == -EPIPE ? response_end(&c->response)
                : n < 0     ? -EIO
                            : response_feed(&c->response, piece, (size_t)n);
        explicit_bzero(piece, n > 0 ? (size_t)n : 0);
        if (n < 0)
                c->response.keeps_alive = false;
        if (c->response.is_done && !(r < 0 && n < 0))
                c->response.keeps_alive &= r >= 0;
        else if (r < 0)
                return r;
        return n > 0 && !c->response.is_done;
}

static void step_receive(struct inject_connection *c, bool *moved)
{
        int r = 1;

        if (c->to_client.length >= CLIENT_MAX)
                return;
        for (int i = 0; i < CHUNK_PIECES && r > 0; i++)
                r = receive_piece(c, moved);
        if (r >= 0 && !c->response.is_done)
                r = response_flush(&c->response);
        if (r < 0)
                fail(c, c->is_cut && !c->response.began
                                ? "ended the connection before it had the request"
                        : c->response.why ? c->response.why
                                          : "ended the connection");
        else if (c->response.is_done)
                end_exchange(c);
}

static int step_exchange(struct inject_connection *c, bool *moved)
{
        int r = step_handshake(c, moved);

        if (r <= 0 || c->state != SENDING)
                return r < 0 ? r : 0;
        step_send(c, moved);
        r = step_upload(c, moved);
        if (r < 0)
                return r;
        if (c->state == SENDING)
                step_receive(c, moved);
        if (*moved && c->state == SENDING)
                set_timer(c, IDLE_MS);
        return 0;
}

/* ---- all steps ---- */

/* Closing a socket with unread bytes would drop the answer. */
static int step_close(struct inject_connection *c)
{
        char dropped[PIECE];

        if (!c->is_shut) {
                tls_end(&c->client);
                shutdown(c->client.fd, SHUT_WR);
                c->is_shut = true;
        }
        while (recv(c->client.fd, dropped, sizeof(dropped), MSG_DONTWAIT) > 0)
                ;
        c->client.wants_read = true;
        return 0;
}

static int step_client(struct inject_connection *c, bool *moved)
{
        if (!c->client.is_ready) {
                int r = tls_handshake(&c->client);
                const char *name = r > 0 ? SSL_get_servername(c->client.ssl,
                                                              TLSEXT_NAMETYPE_host_name)
                                         : NULL;
                *moved |= r > 0;
                if (r > 0 && (!name || strcasecmp(name, host_of(c)->name) != 0))
                        return -EIO;
                return r;
        }
        while (c->to_client.length > 0) {
                ssize_t n = tls_write(&c->client, buffer_bytes(&c->to_client), c->to_client.length);
                if (n < 0)
                        return -EIO;
                if (n == 0)
                        return 1;
                buffer_consume(&c->to_client, (size_t)n);
                *moved = true;
        }
        if (c->state == CUT)
                return -EIO;
        return c->state == CLOSING ? step_close(c) : 1;
}

/* Returns negative: the connection ends. */
static int step(struct inject_connection *c, bool *moved)
{
        int r = step_client(c, moved);

        if (r <= 0)
                return r;
        if (c->state == READING && c->to_client.length == 0)
                return step_request(c, moved);
        return c->state == SENDING ? step_exchange(c, moved) : 0;
}

enum { CLIENT_READ, CLIENT_WRITE, SERVER_READ, SERVER_WRITE };

static void arm(struct inject_connection *c)
{
        const bool wanted[] = {[CLIENT_READ] = c->client.wants_read,
                               [CLIENT_WRITE] = c->client.wants_write,
                               [SERVER_READ] = c->server.wants_read,
                               [SERVER_WRITE] = c->server.wants_write};

        for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
                if (wanted[i])
                        event_add(c->events[i], NULL);
                else
                        event_del(c->events[i]);
}

static void pump(struct inject_connection *c)
{
        bool moved = true;

        c->client.wants_read = c->client.wants_write = false;
        c->server.wants_read = c->server.wants_write = false;
        for (int i = 0; i < TURNS && moved; i++) {
                enum connection_state before = c->state;
                moved = false;
                if (step(c, &moved) < 0) {
                        end(c);
                        return;
                }
                moved |= c->state != before;
        }
        if (moved)
                event_active(c->again, EV_TIMEOUT, 0);
        arm(c);
}

static void on_event(evutil_socket_t fd, short what, void *data)
{
        pump(data);
}

static void on_closed(evutil_socket_t fd, short what, void *data)
{
        end(data);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct inject_connection *c = data;
        bool waits = c->state == ASKING || (c->state == SENDING && !c->response.has_head);

        if (!waits) {
                end(c);
                return;
        }
        answer(c, 504, "took too long");
        pump(c);
}

struct inject_connection *inject_connection_find(struct inject_session *session, uint32_t serial)
{
        struct inject_connection *c = session->connections;

        while (c && !(c->state == ASKING && c->serial == serial))
                c = c->next;
        return c;
}

void inject_connection_decided(struct inject_connection *c, bool is_allowed, bool is_recorded,
                               const char *why)
{
        struct error error = {};

        c->is_recorded = is_recorded;
        c->is_sent = c->is_cut = false;
        int r = is_allowed ? begin_exchange(c, &error) : 0;

        if (!is_allowed)
                answer(c, 403, why);
        else if (r == -EACCES)
                answer(c, 403, error.text);
        else if (r < 0)
                answer(c, 503,
                       r == -EDQUOT ? too_many
                                    : "got a request that is too large with its secrets");
        pump(c);
}

static int make_events(struct inject_connection *c)
{
        struct event_base *base = c->session->inject->base;
        const int fds[] = {c->client.fd, c->client.fd, c->server.fd, c->server.fd};

        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                c->events[i] = event_new(
                        base, fds[i], (i % 2 == 0 ? EV_READ : EV_WRITE) | EV_PERSIST, on_event, c);
                if (!c->events[i])
                        return -ENOMEM;
        }
        c->closed = event_new(base, c->client.fd, EV_CLOSED, on_closed, c);
        c->timer = evtimer_new(base, on_timer, c);
        c->again = evtimer_new(base, on_event, c);
        return c->closed && c->timer && c->again && event_add(c->closed, NULL) == 0 ? 0 : -ENOMEM;
}

void inject_connection_open(struct inject_session *session, size_t host,
                            const int fds[INJECT_HANDED_FDS])
{
        struct inject *inject = session->inject;
        struct inject_connection *c = calloc(1, sizeof(*c));

        if (!c) {
                fd_close_many((int[]){fds[0], fds[1]}, INJECT_HANDED_FDS);
                return;
        }
        *c = (struct inject_connection){.session = session,
                                        .next = session->connections,
                                        .host = host,
                                        .client.fd = fds[0],
                                        .server.fd = fds[1],
                                        .in = BUFFER_INIT(2 * PIECE),
                                        .to_client = BUFFER_INIT(CLIENT_ALL_MAX),
                                        .to_server = BUFFER_INIT(FORWARD_MAX)};
        http_reader_init(&c->reader, 0);
        end_request(c);
        session->connections = c;
        session->n_connections++;
        inject->n_connections++;
        c->client.ssl = authority_accept(inject->authority, host, fds[0]);
        if (!c->client.ssl || fd_set_nonblocking(fds[0], 1) < 0 ||
            fd_set_nonblocking(fds[1], 1) < 0 || make_events(c) < 0) {
                end(c);
                return;
        }
        set_timer(c, REQUEST_MS);
        pump(c);
}

void inject_connections_end(struct inject_session *session)
{
        while (session->connections) {
                struct inject_connection *c = session->connections;
                if (c->state == ASKING || c->state == SENDING) {
                        bool moved = false;
                        fail(c, "was not reached: the server ends");
                        (void)step_client(c, &moved);
                }
                end(c);
        }
}
