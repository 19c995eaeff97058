/*
 * A connection to the proxy.
 *
 *     state      what happens                                            next
 *     HEAD       reads the head of a request                             RESOLVING, DIALING (an address), CLOSING
 *     RESOLVING  the name is looked up                                   DIALING, CLOSING
 *     DIALING    connects to one of its addresses                        RELAYING, CLOSING
 *     RELAYING   bytes go both ways; from the client only once the       CLOSING, or it ends
 *                ClientHello was checked
 *     CLOSING    the answer was sent: reads what the client still sends, it ends
 *                because closing at once would drop the answer
 */
#include "supervisor/egress/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "supervisor/egress/buffers.h"
#include "supervisor/egress/inject.h"
#include "supervisor/egress/request.h"
#include "supervisor/egress/resolver.h"
#include "supervisor/egress/session.h"

enum { TURNS = 16 }; /* reads and writes until others are served */

/* ---- bytes in one direction ---- */

enum { FLOW_SIZE = 40 * 1024 }; /* a head and as much of a body */
static_assert(FLOW_SIZE > 2 * HTTP_HEAD_MAX + 1024,
              "a head, written anew, and what was read behind it");

struct flow {
        struct egress_session *session;
        int slot; /* tally_enter() */
        int from, to;
        bool is_in;               /* from the server */
        bool is_held;             /* reads, and writes nothing: what was read is not checked yet */
        bool stays_open;          /* at the end, the other side is not told */
        struct http_reader *body; /* ends with it; or NULL */

        unsigned char *data;
        size_t at, n;
        bool has_ended, is_shut;  /* all was read; and written */
        bool waits;               /* for egress_connections_wake() */
        struct egress_tail *tail; /* of a body in which placeholders are searched for; or NULL */
        struct event *readable, *writable;
        struct room room;
};

/* The callback gets EV_READ or EV_WRITE. */
static int flow_open(struct flow *f, struct event_base *base, event_callback_fn callback,
                     void *data)
{
        if (!f->data)
                f->data = malloc(FLOW_SIZE);
        f->readable = event_new(base, f->from, EV_READ, callback, data);
        f->writable = event_new(base, f->to, EV_WRITE, callback, data);
        return f->data && f->readable && f->writable ? 0 : -ENOMEM;
}

static void flow_close(struct flow *f)
{
        if (f->readable)
                event_free(f->readable);
        if (f->writable)
                event_free(f->writable);
        buffers_end(&f->room);
        free(f->data);
        free(f->tail);
        f->tail = NULL;
        f->readable = f->writable = NULL;
        f->data = NULL;
}

/* Cuts what was read behind the body. */
static int take_body(struct flow *f, size_t *n)
{
        if (!f->body)
                return 0;
        ssize_t used = http_reader_feed(f->body, (char *)f->data + f->at + f->n, *n,
                                        &(struct error){});
        if (used < 0)
                return -EINVAL;
        *n = (size_t)used;
        f->has_ended = f->body->state == HTTP_READER_DONE;
        return f->tail && egress_inject_finds(f->session->inject, f->tail,
                                              (char *)f->data + f->at + f->n, *n)
                       ? -EACCES
                       : 0;
}

/* Returns 1: bytes came, or the end; 0: not now. */
static int fill(struct flow *f)
{
        size_t end = f->at + f->n;

        if (end == FLOW_SIZE)
                return 0;
        ssize_t most = egress_session_allow(f->session, FLOW_SIZE - end);
        f->waits = most == 0;
        if (most <= 0)
                return (int)most;
        ssize_t n = recv(f->from, f->data + end, (size_t)most, MSG_DONTWAIT);
        if (n == 0) {
                f->has_ended = true;
                return f->body ? -EPIPE : 1; /* a body that ends too soon */
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                event_add(f->readable, NULL);
                return 0;
        }
        if (n < 0)
                return -errno;
        size_t length = (size_t)n;
        f->room.moved += length;
        egress_session_used(f->session, length);
        int r = take_body(f, &length);
        if (r < 0)
                return r;
        if (f->is_in)
                tally_bytes(f->session, f->slot, true, length);
        f->n += length;
        return 1;
}

/* Returns 1: bytes went; 0: not now. */
static int drain(struct flow *f)
{
        ssize_t n = send(f->to, f->data + f->at, f->n, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                event_add(f->writable, NULL);
                return 0;
        }
        if (n < 0)
                return -errno;
        if (!f->is_in)
                tally_bytes(f->session, f->slot, false, (size_t)n);
        f->at += (size_t)n;
        f->n -= (size_t)n;
        if (f->n == 0)
                f->at = 0;
        return 1;
}

/*
 * Reads and writes as much as possible now, and waits for the rest by events. Returns 0, or a negative errno that ends the
 * connection: -EDQUOT, max_bytes are used up; -EINVAL, the body is malformed. *moved: bytes came or went.
 */
static int flow_pump(struct flow *f, bool *moved)
{
        int r = 1;

        for (int i = 0; i < TURNS && r > 0; i++) {
                if (f->n > 0 && !f->is_held)
                        r = drain(f);
                else if (!f->has_ended)
                        r = fill(f);
                else
                        break;
                *moved |= r > 0;
        }
        if (r > 0 && !f->has_ended)
                event_active(f->readable, EV_READ, 0);
        else if (r > 0 && f->n > 0 && !f->is_held)
                event_active(f->writable, EV_WRITE, 0);
        if (r >= 0 && f->has_ended && f->n == 0 && !f->is_shut) {
                f->is_shut = true;
                if (!f->stays_open)
                        shutdown(f->to, SHUT_WR);
        }
        return r < 0 ? r : 0;
}

/* ---- connections ---- */

enum connection_state { HEAD, RESOLVING, DIALING, RELAYING, CLOSING };

enum {
        HEAD_MS = 10000, /* until the head is complete, and the ClientHello */
        RESOLVE_MS = 15000,
        DIAL_ALL_MS = 20000,
        IDLE_MS = 300000,
        CLOSING_MS = 2000,
        CLOSING_BYTES = 256 * 1024,
        FORWARD_MAX = HTTP_HEAD_MAX + 1024,
};

struct connection {
        struct egress_session *session;
        struct connection *next;
        enum connection_state state;
        int client, server;
        struct event timer;
        struct http_reader reader;
        size_t head_size;
        struct request request;
        struct flow out, in;
        struct resolver_job *job;
        struct dial *dial;
        int slot;
        uint64_t moved_ms;
        size_t dropped; /* while CLOSING */
        bool must_be_tls;
};

static void connection_free(struct connection *c)
{
        flow_close(&c->out);
        flow_close(&c->in);
        resolver_cancel(c->job);
        dial_cancel(c->dial);
        event_del(&c->timer);
        tally_leave(c->session, c->slot);
        if (c->server >= 0)
                buffers_close(c->server);
        close(c->client);
        http_reader_done(&c->reader);
        free(c);
}

static void end(struct connection *c)
{
        struct egress_session *s = c->session;
        struct connection **at = &s->connections;

        while (*at != c)
                at = &(*at)->next;
        *at = c->next;
        connection_free(c);
        egress_session_left(s);
}

static void set_timer(struct connection *c, uint64_t ms)
{
        struct timeval after = clock_timeval_ms(ms);

        event_add(&c->timer, &after);
}

/* ---- answers of the proxy itself ---- */

static int status_of(enum egress_reason why)
{
        if (why == EGRESS_MALFORMED)
                return 400;
        if (why == EGRESS_LATE)
                return 504;
        return egress_is_denial(why) ? 403 : 502;
}

static void start_closing(struct connection *c)
{
        struct event *others[] = {c->out.writable, c->in.readable, c->in.writable};

        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                if (others[i])
                        event_del(others[i]);
        shutdown(c->client, SHUT_WR);
        c->state = CLOSING;
        c->out.n = c->out.at = 0;
        event_add(c->out.readable, NULL);
        set_timer(c, CLOSING_MS);
}

/* The text is in the status line too, because that is what clients show of an answer to CONNECT. Nothing was written
 * to the socket before, so that its buffer takes all of it. */
static void answer(struct connection *c, enum egress_reason why)
{
        char line[512], text[1400];

        const char *host = c->request.has_host ? c->request.host.text : "the host";
        egress_reason_print(line, sizeof(line), host, c->request.has_host ? c->request.port : 0,
                            why, c->session->profile);
        int n = snprintf(
                text, sizeof(text),
                "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
                status_of(why), line, strlen(line) + 1, line);
        if (n > 0 && (size_t)n < sizeof(text))
                (void)!send(c->client, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
        start_closing(c);
}

static void note(struct connection *c, enum egress_reason why)
{
        tally_refused(c->session, c->request.has_host ? c->request.host.text : "", c->request.port,
                      why);
}

static void refuse(struct connection *c, enum egress_reason why)
{
        note(c, why);
        answer(c, why);
}

/* In a tunnel: as TLS says it (RFC 8446, 6: fatal, unrecognized_name). */
static void refuse_tunnel(struct connection *c, enum egress_reason why)
{
        static const char alert[] = {21, 3, 1, 0, 2, 2, 112};

        note(c, why);
        (void)!send(c->client, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL);
        start_closing(c);
}

/* ---- relaying ---- */

/* Returns 1 if the bytes may be sent to the server, 0 if more are needed, or negative errno: *why. */
static int check_tunnel(const struct connection *c, enum egress_reason *why)
{
        const struct flow *f = &c->out;
        const unsigned char *data = f->data + f->at;

        if (f->n == 0)
                return 0;
        *why = EGRESS_NOT_TLS;
        if (data[0] != TLS_HANDSHAKE)
                return c->must_be_tls ? -EINVAL : 1;
        return client_hello_check(data, f->n, &c->request.host, why);
}

/* Returns false if the connection has ended or closes. */
static bool relay(struct connection *c)
{
        enum egress_reason why;
        bool moved = false;

        int r = flow_pump(&c->out, &moved);
        if (r >= 0 && c->out.is_held) {
                int checked = check_tunnel(c, &why);
                /* The rest of it will not come. */
                if (checked == 0 && c->out.has_ended && c->out.n > 0)
                        checked = -EPIPE;
                if (checked < 0) {
                        refuse_tunnel(c, why);
                        return false;
                }
                if (checked > 0) {
                        c->out.is_held = false;
                        set_timer(c, IDLE_MS);
                        r = flow_pump(&c->out, &moved);
                }
        }
        if (r >= 0)
                r = flow_pump(&c->in, &moved);
        if (moved) {
                c->moved_ms = clock_ms();
                buffers_moved(&c->in.room, &c->out.room);
                buffers_moved(&c->out.room, &c->in.room);
        }
        if (r == -EDQUOT || r == -EACCES)
                note(c, r == -EDQUOT ? EGRESS_USED_UP : EGRESS_PLACEHOLDER);
        /* Without TLS the answer ends with the server's end. */
        bool is_over = c->in.is_shut && (c->out.is_shut || c->out.stays_open || c->out.is_held);
        if (r >= 0 && !is_over)
                return true;
        end(c);
        return false;
}

/* The head for the server goes before what was read of the body. */
static int put_before(struct flow *f, const struct buffer *text)
{
        if (text->length + f->n > FLOW_SIZE)
                return -EMSGSIZE;
        memmove(f->data + text->length, f->data + f->at, f->n);
        memcpy(f->data, buffer_bytes(text), text->length);
        f->at = 0;
        f->n += text->length;
        return 0;
}

/* Of a request that is not CONNECT: what was read behind its body is dropped. */
static int prepare_forward(struct connection *c)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(FORWARD_MAX);
        struct flow *f = &c->out;

        int r = request_append_forward(&c->reader, &c->request, &text);
        if (r < 0)
                return r;
        f->at += c->head_size;
        f->n -= c->head_size;
        ssize_t used = http_reader_feed(&c->reader, (char *)f->data + f->at, f->n,
                                        &(struct error){});
        if (used < 0)
                return -EINVAL;
        f->n = (size_t)used;
        if (c->session->inject) {
                f->tail = calloc(1, sizeof(*f->tail));
                if (!f->tail)
                        return -ENOMEM;
                if (egress_inject_finds(c->session->inject, f->tail, (char *)f->data + f->at, f->n))
                        return -EACCES;
        }
        f->body = &c->reader;
        f->has_ended = c->reader.state == HTTP_READER_DONE;
        f->stays_open = true;
        return put_before(f, &text);
}

static bool is_injected(const struct connection *c)
{
        return egress_inject_has(c->session->inject, &c->request.host, c->request.port);
}

static int prepare_tunnel(struct connection *c)
{
        static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
        struct flow *f = &c->out;

        f->at += c->head_size;
        f->n -= c->head_size;
        memmove(f->data, f->data + f->at, f->n);
        f->at = 0;
        f->is_held = true;
        c->must_be_tls = c->request.port == NETWORK_PORT_TLS || is_injected(c);
        ssize_t n = sizeof(established) - 1;
        return send(c->client, established, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) == n ? 0 : -EIO;
}

/* Bytes that were read behind the head and are sent to the server count like later ones. */
static int count_begun(struct connection *c)
{
        struct egress_session *s = c->session;

        if (s->used >= s->max_bytes || c->out.n > s->max_bytes - s->used)
                return -EDQUOT;
        egress_session_used(s, c->out.n);
        return 0;
}

static void on_socket(evutil_socket_t fd, short what, void *data);

static void start_relaying(struct connection *c)
{
        struct event_base *base = c->session->egress->base;

        event_free(c->out.readable);
        c->out.readable = NULL;
        c->slot = tally_enter(c->session, c->request.host.text, c->request.port);
        c->out.slot = c->in.slot = c->slot;
        c->out.to = c->in.from = c->server;
        c->in.to = c->client;
        c->in.room = (struct room){c->session, c->server, c->client, .is_in = true};
        c->out.room = (struct room){c->session, c->client, c->server};
        c->state = RELAYING;
        c->moved_ms = clock_ms();
        int r = flow_open(&c->out, base, on_socket, c);
        if (r >= 0)
                r = flow_open(&c->in, base, on_socket, c);
        if (r >= 0)
                r = c->request.is_connect ? prepare_tunnel(c) : prepare_forward(c);
        if (r >= 0)
                r = count_begun(c);
        if (r < 0) {
                if (r == -EINVAL || r == -EDQUOT || r == -EACCES)
                        note(c, r == -EINVAL   ? EGRESS_MALFORMED
                                : r == -EDQUOT ? EGRESS_USED_UP
                                               : EGRESS_PLACEHOLDER);
                end(c);
                return;
        }
        buffers_begin(&c->in.room);
        set_timer(c, c->out.is_held && c->must_be_tls ? HEAD_MS : IDLE_MS);
        relay(c);
}

/* ---- the way to the server ---- */

static void on_dialed(void *data, int fd, enum egress_reason why)
{
        struct connection *c = data;

        c->dial = NULL;
        if (fd >= 0 && is_injected(c)) {
                fd = egress_inject_hand(c->session->inject, &c->request.host, c->request.port, fd);
                why = EGRESS_NO_READER;
        } else if (fd >= 0) {
                buffers_fix(fd);
        }
        c->server = fd < 0 ? -1 : fd;
        if (fd < 0)
                refuse(c, why);
        else
                start_relaying(c);
}

static void start_dialing(struct connection *c, const struct resolver_answer *found)
{
        struct resolver_answer answer = *found;

        if (answer.n == 0) {
                refuse(c, EGRESS_UNKNOWN);
                return;
        }
        dial_filter(c->session, c->request.port, &answer);
        if (answer.n == 0) {
                refuse(c, EGRESS_NOT_PUBLIC);
                return;
        }
        c->state = DIALING;
        set_timer(c, DIAL_ALL_MS);
        c->dial = dial_start(c->session->egress->base, &answer, on_dialed, c);
        if (!c->dial)
                end(c);
}

static void on_resolved(void *data, const struct resolver_answer *answer)
{
        struct connection *c = data;

        c->job = NULL;
        start_dialing(c, answer);
}

static void dial_address(struct connection *c)
{
        struct resolver_answer answer = {.n = 1};
        const struct network_host *host = &c->request.host;

        if (host->kind == NETWORK_V4) {
                struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(c->request.port)};
                memcpy(&v4.sin_addr, host->address, 4);
                memcpy(&answer.addresses[0], &v4, sizeof(v4));
        } else {
                struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                                          .sin6_port = htons(c->request.port)};
                memcpy(&v6.sin6_addr, host->address, 16);
                memcpy(&answer.addresses[0], &v6, sizeof(v6));
        }
        start_dialing(c, &answer);
}

/* The rule comes first: a name that no rule names is never looked up. */
static void start_request(struct connection *c)
{
        struct egress_session *s = c->session;
        const struct request *request = &c->request;

        if (!network_rules_name(s->rules, s->n_rules, &request->host, request->port)) {
                refuse(c, EGRESS_NOT_NAMED);
                return;
        }
        if (!egress_session_allows(s, request->host.text, request->port)) {
                refuse(c, EGRESS_RULE);
                return;
        }
        if (request->is_connect ? request->port == NETWORK_PORT_HTTP : is_injected(c)) {
                refuse(c, request->is_connect ? EGRESS_NOT_TLS : EGRESS_NOT_READ);
                return;
        }
        if (egress_inject_finds(s->inject, &(struct egress_tail){}, (char *)c->out.data,
                                c->head_size)) {
                refuse(c, EGRESS_PLACEHOLDER);
                return;
        }
        if (s->used >= s->max_bytes) {
                refuse(c, EGRESS_USED_UP);
                return;
        }
        if (request->host.kind != NETWORK_NAME) {
                dial_address(c);
                return;
        }
        c->state = RESOLVING;
        set_timer(c, RESOLVE_MS);
        c->job = resolver_ask(s->egress->resolver, s, request->host.text, request->port,
                              on_resolved, c);
        if (!c->job)
                end(c);
}

/* ---- the head ---- */

static void read_head(struct connection *c)
{
        struct flow *f = &c->out;
        enum egress_reason why = EGRESS_MALFORMED;

        f->waits = egress_session_must_wait(c->session);
        if (f->waits)
                return;
        /* One byte more than a head may have: it is refused then. */
        ssize_t n = recv(c->client, f->data + f->n, HTTP_HEAD_MAX + 1 - f->n, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
                end(c);
                return;
        }
        size_t got = n > 0 ? (size_t)n : 0;
        ssize_t used = request_feed(&c->reader, (char *)f->data + f->n, got, &c->request, &why);
        c->head_size = f->n + (used > 0 ? (size_t)used : 0);
        f->n += got;
        if (used < 0)
                refuse(c, why);
        else if (c->reader.state == HTTP_READER_HEADERS)
                start_request(c);
        else if (f->n > HTTP_HEAD_MAX)
                refuse(c, EGRESS_MALFORMED);
        else
                event_add(f->readable, NULL);
}

static void drop_rest(struct connection *c)
{
        ssize_t n = recv(c->client, c->out.data, FLOW_SIZE, MSG_DONTWAIT);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
                end(c);
                return;
        }
        c->dropped += n > 0 ? (size_t)n : 0;
        if (c->dropped > CLOSING_BYTES)
                end(c);
        else
                event_add(c->out.readable, NULL);
}

static void on_socket(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;

        if (c->state == HEAD)
                read_head(c);
        else if (c->state == RELAYING)
                relay(c);
        else if (c->state == CLOSING)
                drop_rest(c);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;
        uint64_t idle = clock_ms() - c->moved_ms;

        if (c->state == RESOLVING || c->state == DIALING) {
                c->job = resolver_cancel(c->job);
                c->dial = dial_cancel(c->dial);
                refuse(c, EGRESS_LATE);
        } else if (c->state == RELAYING && !(c->out.is_held && c->must_be_tls) && idle < IDLE_MS) {
                set_timer(c, IDLE_MS - idle);
        } else if (c->state == HEAD && c->out.waits) {
                set_timer(c, HEAD_MS);
        } else {
                end(c);
        }
}

int egress_connection_open(struct egress_session *s, int client)
{
        struct connection *c = calloc(1, sizeof(*c));

        buffers_fix(client);
        if (!c) {
                close(client);
                return -ENOMEM;
        }
        *c = (struct connection){.session = s,
                                 .next = s->connections,
                                 .state = HEAD,
                                 .client = client,
                                 .server = -1,
                                 .slot = TALLY_NONE,
                                 .out = {.session = s, .from = client, .to = -1},
                                 .in = {.session = s, .from = -1, .is_in = true}};
        http_reader_init_proxy(&c->reader);
        evtimer_assign(&c->timer, s->egress->base, on_timer, c);
        c->out.readable = event_new(s->egress->base, client, EV_READ, on_socket, c);
        c->out.data = malloc(FLOW_SIZE);
        if (!c->out.readable || !c->out.data || event_add(c->out.readable, NULL) < 0) {
                connection_free(c);
                return -ENOMEM;
        }
        set_timer(c, HEAD_MS);
        s->connections = c;
        return 0;
}

void egress_connections_wake(struct egress_session *s)
{
        struct connection *next;

        for (struct connection *c = s->connections; c; c = next) {
                next = c->next;
                if (c->state == RELAYING && (c->out.waits || c->in.waits))
                        relay(c);
                else if (c->state == HEAD && c->out.waits)
                        read_head(c);
        }
}

void egress_connections_end(struct egress_session *s)
{
        while (s->connections) {
                struct connection *c = s->connections;
                s->connections = c->next;
                connection_free(c);
        }
}
