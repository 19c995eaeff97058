/* One request and its response: what libcurl says of what a server sends, and the bounds. */
#include "supervisor/hub/http/exchange.h"

#include "tests/unit/fake-clock.h"
#include "tests/unit/far-server.h"

static struct event_base *base;
static struct exchange_loop *loop;

/* Callbacks of one exchange, and their values. */
static struct told {
        struct exchange *x;
        unsigned heads, bodies, ends;
        int status;
        char type[EXCHANGE_CONTENT_TYPE_MAX + 1];
        struct buffer body;
        char why[512]; /* "": complete */
        size_t most;   /* bytes that body() takes of each call; 0: all */
        enum { FREE_NEVER, FREE_AT_HEAD, FREE_AT_BODY, FREE_AT_END } frees;
        struct exchange *other; /* freed too */
} told;

static void maybe_free(int when)
{
        if ((int)told.frees != when)
                return;
        told.x = exchange_free(told.x);
        told.other = exchange_free(told.other);
}

static void on_head(void *data)
{
        const struct exchange_head *head = &told.x->head;

        check(data == &told);
        check_eq_int(told.bodies + told.ends, 0);
        told.heads++;
        told.status = head->status;
        snprintf(told.type, sizeof(told.type), "%s", head->content_type);
        maybe_free(FREE_AT_HEAD);
}

static size_t on_body(void *data, const char *bytes, size_t n)
{
        size_t used = told.most && told.most < n ? told.most : n;

        (void)data;
        check_eq_int(told.heads, 1);
        check_eq_int(told.ends, 0);
        check(n > 0);
        told.bodies++;
        check_eq_int(buffer_append(&told.body, bytes, used), 0);
        maybe_free(FREE_AT_BODY);
        return used;
}

static void on_end(void *data, const char *why)
{
        (void)data;
        told.ends++;
        snprintf(told.why, sizeof(told.why), "%s", why ? why : "");
        maybe_free(FREE_AT_END);
}

static const struct exchange_host host = {.head = on_head, .body = on_body, .end = on_end};

static void open_all(void)
{
        base = event_base_new();
        check(base);
        check_eq_int(exchange_loop_new(&loop, base), 0);
        far_open(base);
}

static void forget(void)
{
        exchange_free(told.x);
        buffer_done(&told.body);
        told = (struct told){};
        buffer_init(&told.body, 256 << 20);
}

static void close_all(void)
{
        forget();
        loop = exchange_loop_free(loop);
        far_close();
        event_base_free(base);
}

static void begin(enum exchange_method method, const char *url, const char *body)
{
        static const char *const headers[] = {"Accept: application/json", "X-Empty: ", NULL};
        const struct exchange_request request = {.method = method,
                                                 .url = url,
                                                 .headers = headers,
                                                 .body = body,
                                                 .n = body ? strlen(body) : 0};
        struct error err = {};

        forget();
        told.x = exchange_start(loop, &request, &host, &told, &err);
        check(told.x);
        check_eq_int(told.heads + told.ends, 0);
}

static struct far_connection *post(void)
{
        begin(EXCHANGE_POST, far_url("/mcp"), "{}");
        return far_next();
}

static void until_end(void)
{
        far_until(told.ends > 0);
        far_turn();
        check_eq_int(told.ends, 1);
}

/* ---- what is sent, and what comes back ---- */

static void test_request(void)
{
        open_all();
        struct far_connection *c = post();
        check_eq_int(strncmp(c->head, "POST /mcp HTTP/1.1\r\n", 20), 0);
        check_has(c->head, "Content-Length: 2\r\n");
        check_has(c->head, "X-Empty:\r\n");
        check(!strstr(c->head, "Expect") && !strstr(c->head, "Accept-Encoding"));
        check_eq_str(c->body, "{}");
        far_answer(c, 200, FAR_JSON, "[1]");
        until_end();
        check_eq_int(told.status, 200);
        check_eq_str(told.why, "");
        check_eq_bytes(buffer_bytes(&told.body), told.body.length, "[1]");
        begin(EXCHANGE_GET, far_url("/mcp"), NULL);
        c = far_next();
        check_eq_int(strncmp(c->head, "GET /mcp HTTP/1.1\r\n", 19), 0);
        check_eq_int(far.n_connections, 1); /* it is used again */
        close_all();
}

static void test_statuses(void)
{
        static const struct {
                const char *response;
                int status;
                const char *type, *body;
        } rows[] = {
                {"HTTP/1.1 200 OK\r\n" FAR_JSON "Content-Length: 2\r\n\r\n{}", 200,
                 "application/json", "{}"},
                {"HTTP/1.1 200\r\nContent-Type:  Application/JSON ; charset=x\r\nContent-Length: 0\r\n\r\n",
                 200, "application/json", ""},
                {"HTTP/1.1 200 OK\r\ncontent-type:text/event-stream;x\r\nContent-Length: 1\r\n\r\n:",
                 200, "text/event-stream", ":"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 200,
                 "", "x"},
                {"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nyes", 202, "", "yes"},
                {"HTTP/1.1 204 No\r\n\r\n", 204, "", ""},
                {"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", 404, "", "no"},
                {"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", 500, "", ""},
                {"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\n" FAR_JSON
                 "\r\nHTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n",
                 201, "", ""},
                /* A response without a Location is not a redirect. */
                {"HTTP/1.1 302 F\r\nContent-Length: 1\r\n\r\nx", 302, "", "x"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n" FAR_JSON
                 "\r\n",
                 200, "", "[]"},
        };

        open_all();
        for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
                far.piece = i % 2; /* whole, and in pieces of one byte */
                far_say(post(), rows[i / 2].response);
                until_end();
                check_eq_int(told.status, rows[i / 2].status);
                check_eq_int(told.heads, 1);
                check_eq_str(told.type, rows[i / 2].type);
                check_eq_str(told.why, "");
                check_eq_bytes(buffer_bytes(&told.body), told.body.length, rows[i / 2].body);
        }
        close_all();
}

static void check_end(const char *part)
{
        until_end();
        check_has(told.why, part);
}

static void test_ends_in_the_middle(void)
{
        static const char *const responses[] = {
                "", "HTTP/1.1 200 O", "HTTP/1.1 200 OK\r\nContent-Type: text",
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"a\"",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"};

        open_all();
        for (size_t i = 0; i < 2 * ARRAY_SIZE(responses); i++) {
                struct far_connection *c = post();
                unsigned before = far.n_requests;
                far_say(c, responses[i / 2]);
                far_turn();
                if (i % 2)
                        far_reset(c);
                else
                        far_hang_up(c);
                until_end();
                check_has(told.why, "closed the connection before its answer was complete");
                check_eq_int(far.n_requests, before); /* it is not sent again */
        }
        /* The control: the end of the connection is the end of a body without a length. */
        struct far_connection *c = post();
        far_say(c, "HTTP/1.1 200 OK\r\n\r\nall");
        far_turn();
        far_hang_up(c);
        until_end();
        check_eq_str(told.why, "");
        close_all();
}

/* A server that ends a connection which it kept has not seen the next request: that is sent on another one.
 * One that ends it after the request may have run it. */
static void test_kept_connection(void)
{
        open_all();
        struct far_connection *c = post();
        far_answer(c, 200, "", "");
        until_end();
        far_hang_up(c);
        c = post();
        check_eq_int(far.n_connections, 2);
        far_answer(c, 200, "", "");
        until_end();
        check_eq_str(told.why, "");
        c = post();
        check_eq_int(far.n_connections, 2);
        far_hang_up(c);
        until_end();
        check_has(told.why, "closed the connection");
        check_eq_int(far.n_requests, 3);
        close_all();
}

static void test_not_http(void)
{
        static const char *const lines[] = {"SSH-2.0-OpenSSH_9.2\r\n", "{\"jsonrpc\":\"2.0\"}\n",
                                            "HTTP/7.7 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"};

        open_all();
        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
                struct far_connection *c = post();
                far_say(c, lines[i]);
                far_turn();
                far_hang_up(c);
                check_end("does not speak HTTP");
                check_eq_int(told.heads, 0);
        }
        close_all();
}

static void test_no_connection(void)
{
        open_all();
        const char *url = far_url("/mcp");
        far_close();
        begin(EXCHANGE_POST, url, "{}");
        until_end();
        check_has(told.why, "cannot connect to http://127.0.0.1:");
        check_has(told.why, ": Connection refused");
        far_open(base);
        /* The server answers a TLS hello without TLS. */
        char tls[64];
        snprintf(tls, sizeof(tls), "https://127.0.0.1:%u/", far.port);
        begin(EXCHANGE_POST, tls, "{}");
        far_until(far.n_connections > 0 && far.connections[0].in.length > 0);
        far_say(&far.connections[0], "HTTP/1.1 400 Bad\r\n\r\n");
        until_end();
        check_has(told.why, "TLS with https://127.0.0.1:");
        check_has(told.why, " failed: ");
        begin(EXCHANGE_POST, "gopher://127.0.0.1/", "{}");
        check_end("its url is not a valid http or https url");
        begin(EXCHANGE_POST, "file:///etc/passwd", "{}");
        check_end("its url is not a valid http or https url");
        close_all();
}

/* ---- redirects ---- */

static void redirect(struct far_connection *c, int status, const char *location)
{
        char headers[512];

        snprintf(headers, sizeof(headers), "Location: %s\r\n", location);
        far_answer(c, status, headers, "moved");
}

static void test_redirects(void)
{
        open_all();
        redirect(post(), 307, "/other?x=1");
        struct far_connection *c = far_next();
        check_eq_int(strncmp(c->head, "POST /other?x=1 ", 16), 0);
        check_eq_str(c->body, "{}");
        check_has(c->head, "X-Empty:\r\n");
        for (int i = 1; i < EXCHANGE_REDIRECTS_MAX; i++) {
                redirect(c, 308, "again");
                c = far_next();
        }
        far_answer(c, 200, "", "ok");
        until_end();
        check_eq_str(told.why, "");
        check_eq_int(told.heads, 1);
        check_eq_bytes(buffer_bytes(&told.body), told.body.length, "ok");
        /* One more. */
        c = post();
        for (int i = 0; i < EXCHANGE_REDIRECTS_MAX; i++) {
                redirect(c, 307, "/mcp");
                c = far_next();
        }
        redirect(c, 307, "/mcp");
        check_end("redirects more than 3 times");
        /* 303 makes a GET of a POST: the message would be lost. A GET stays one. */
        redirect(post(), 303, "/x");
        check_end("in a way that loses the message");
        far_nothing();
        begin(EXCHANGE_GET, far_url("/mcp"), NULL);
        redirect(far_next(), 302, "/x");
        c = far_next();
        check_eq_int(strncmp(c->head, "GET /x ", 7), 0);
        far_answer(c, 200, "", "");
        until_end();
        close_all();
}

static void test_redirects_elsewhere(void)
{
        char places[8][128];
        unsigned n = 0;

        open_all();
        snprintf(places[n++], sizeof(places[0]), "http://localhost:%u/mcp", far.port);
        snprintf(places[n++], sizeof(places[0]), "//localhost:%u/mcp", far.port);
        snprintf(places[n++], sizeof(places[0]), "https://127.0.0.1:%u/mcp", far.port);
        snprintf(places[n++], sizeof(places[0]), "http://127.0.0.1:%u/mcp", far.port ^ 1U);
        snprintf(places[n++], sizeof(places[0]), "http://127.0.0.1:%u@localhost/", far.port);
        snprintf(places[n++], sizeof(places[0]), "http://127.0.0.2:%u/mcp", far.port);
        snprintf(places[n++], sizeof(places[0]), "file:///etc/passwd");
        snprintf(places[n++], sizeof(places[0]), "http:///mcp");
        for (unsigned i = 0; i < n; i++) {
                unsigned requests = far.n_requests;
                redirect(post(), 307, places[i]);
                until_end();
                check_has(told.why, "redirects to another origin");
                check_eq_int(told.heads, 0);
                far_nothing();
                check_eq_int(far.n_requests, requests + 1);
        }
        close_all();
}

/* ---- bounds ---- */

/* Sends a response whose headers have n bytes in all. */
static void say_headers(struct far_connection *c, size_t n)
{
        static const char first[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(1 << 20);

        check_eq_int(buffer_append_text(&text, first), 0);
        while (text.length + 2 < n) {
                size_t line = n - 2 - text.length < 2000 ? n - 2 - text.length : 1000;
                char bytes[2048];
                memset(bytes, 'x', sizeof(bytes));
                memcpy(bytes, "X-A: ", 5);
                memcpy(bytes + line - 2, "\r\n", 2);
                check_eq_int(buffer_append(&text, bytes, line), 0);
        }
        check_eq_int(buffer_append_text(&text, "\r\n"), 0);
        check_eq_int(text.length, n);
        far_write(c, buffer_bytes(&text), text.length);
}

static void test_headers_bound(void)
{
        open_all();
        say_headers(post(), EXCHANGE_HEADERS_MAX);
        until_end();
        check_eq_str(told.why, "");
        say_headers(post(), EXCHANGE_HEADERS_MAX + 1);
        check_end("sends more than 128 KiB of headers");
        /* Interim responses and redirects count too. */
        struct far_connection *c = post();
        for (int i = 0; i < 10000 && !c->is_over; i++) {
                far_say(c, "HTTP/1.1 103 E\r\nX-A: 1\r\n\r\n");
                far_turn();
        }
        check_end("sends more than 128 KiB of headers");
        char location[64 * 1024];
        memset(location, 'a', sizeof(location));
        memcpy(location, "Location: /", 11);
        strcpy(location + sizeof(location) - 3, "\r\n");
        c = post();
        far_answer(c, 307, location, "");
        far_answer(far_next(), 307, location, "");
        check_end("sends more than 128 KiB of headers");
        close_all();
}

static void test_head_values(void)
{
        char text[EXCHANGE_CHALLENGE_MAX + 64];

        open_all();
        far_answer(post(), 200, "Mcp-Session-Id: a-1\r\n", "");
        until_end();
        check_eq_str(told.x->head.session, "a-1");
        static const char *const bad[] = {"a b", "", "\xc3\xa9", "a\x7f", "a\tb"};
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                snprintf(text, sizeof(text), "MCP-SESSION-ID: %s\r\n", bad[i]);
                far_answer(post(), 200, text, "");
                until_end();
                check(told.x->head.session_is_bad);
                check_eq_str(told.x->head.session, "");
        }
        for (size_t n = EXCHANGE_SESSION_MAX; n <= EXCHANGE_SESSION_MAX + 1; n++) {
                snprintf(text, sizeof(text), "Mcp-Session-Id: %0*d\r\n", (int)n, 1);
                far_answer(post(), 200, text, "");
                until_end();
                check_eq_int(told.x->head.session_is_bad, n > EXCHANGE_SESSION_MAX);
        }
        far_answer(post(), 401, "WWW-Authenticate: Basic\r\nwww-authenticate: Bearer x=\"1\"\r\n",
                   "");
        until_end();
        check_eq_str(told.x->head.challenge, "Basic, Bearer x=\"1\"");
        for (size_t n = EXCHANGE_CHALLENGE_MAX; n <= EXCHANGE_CHALLENGE_MAX + 1; n++) {
                snprintf(text, sizeof(text), "WWW-Authenticate: %0*d\r\n", (int)n, 1);
                far_answer(post(), 401, text, "");
                until_end();
                check_eq_int(strlen(told.x->head.challenge), n > EXCHANGE_CHALLENGE_MAX ? 0 : n);
        }
        far_answer(
                post(), 200,
                "Content-Type: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
                "");
        until_end();
        check_eq_int(strlen(told.type), EXCHANGE_CONTENT_TYPE_MAX);
        close_all();
}

/* Bytes that the owner does not take wait in the server. */
static void test_pause(void)
{
        enum { ALL = 32 << 20 };
        struct far_connection *c;
        size_t at = 0;

        open_all();
        c = post();
        exchange_pause(told.x);
        far_say(c, "HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n");
        far_turn();
        check_eq_int(told.heads, 1);
        char *bytes = malloc(ALL);
        check(bytes);
        for (size_t i = 0; i < ALL; i++)
                bytes[i] = (char)(i * 7 + i / 251);
        for (int idle = 0; idle < 50 && at < ALL;) {
                ssize_t n = send(c->fd, bytes + at, ALL - at, MSG_NOSIGNAL);
                at += n > 0 ? (size_t)n : 0;
                idle = n > 0 ? 0 : idle + 1;
                far_turn();
        }
        check(at < ALL);
        check(told.x->is_full);
        check(told.x->body.length <= EXCHANGE_KEPT_MAX);
        check_eq_int(told.bodies + told.ends, 0);
        told.most = 50000;
        exchange_resume(told.x);
        far_write(c, bytes + at, ALL - at);
        until_end();
        check_eq_int(told.body.length, ALL);
        check_eq_int(memcmp(buffer_bytes(&told.body), bytes, ALL), 0);
        free(bytes);
        /* The end is reported after the rest. */
        c = post();
        exchange_pause(told.x);
        far_answer(c, 200, "", "rest");
        far_turn();
        check_eq_int(told.bodies + told.ends, 0);
        exchange_resume(told.x);
        until_end();
        check_eq_bytes(buffer_bytes(&told.body), told.body.length, "rest");
        close_all();
}

static void test_timeout(void)
{
        const struct exchange_request request = {
                .method = EXCHANGE_POST, .url = far_url("/"), .body = "", .timeout_ms = 30000};
        struct error err = {};

        open_all();
        for (int has_head = 0; has_head < 2; has_head++) {
                struct exchange_request r = request;
                r.url = far_url("/");
                forget();
                told.x = exchange_start(loop, &r, &host, &told, &err);
                struct far_connection *c = far_next();
                if (has_head)
                        far_say(c, FAR_EVENTS);
                far_turn();
                fake_clock_advance_ms(25000);
                far_turn();
                check_eq_int(told.ends, 0);
                fake_clock_advance_ms(5000);
                check_end(has_head ? "did not complete its answer in time"
                                   : "did not answer in time");
        }
        close_all();
}

/* Sessions that end: no owner waits for the responses. */
static void test_closing(void)
{
        struct exchange_request request = {.method = EXCHANGE_DELETE,
                                           .timeout_ms = EXCHANGE_CLOSING_MS};
        struct error err = {};

        open_all();
        request.url = far_url("/mcp");
        for (int i = 0; i < EXCHANGE_CLOSING_MAX; i++)
                check(exchange_start(loop, &request, NULL, NULL, &err));
        check(!exchange_start(loop, &request, NULL, NULL, &err));
        check_has(err.text, "too many sessions end at once");
        /* Others are not refused. */
        far_until(far.n_requests == EXCHANGE_CLOSING_MAX);
        begin(EXCHANGE_POST, far_url("/mcp"), "{}");
        far_until(far.n_requests == EXCHANGE_CLOSING_MAX + 1);
        /* An answer makes room for one more. */
        struct far_connection *c = far_next();
        check_has(c->head, "DELETE /mcp ");
        far_answer(c, 200, "", "");
        far_until(loop->n_left < EXCHANGE_CLOSING_MAX);
        check(exchange_start(loop, &request, NULL, NULL, &err));
        check_eq_int(loop->n_left, EXCHANGE_CLOSING_MAX);
        /* A server that does not answer has its time. */
        fake_clock_advance_ms(EXCHANGE_CLOSING_MS + 500);
        far_until(loop->n_left == 0);
        check_eq_int(told.ends, 0);
        close_all();
}

static void test_frees_itself(void)
{
        open_all();
        for (int when = FREE_AT_HEAD; when <= FREE_AT_END; when++) {
                struct far_connection *c = post();
                const struct exchange_request other = {.method = EXCHANGE_GET,
                                                       .url = far_url("/b")};
                struct error err = {};
                told.frees = when;
                told.other = exchange_start(loop, &other, &host, &told, &err);
                far_next();
                far_answer(c, 200, "", "body");
                far_until(!told.x);
                far_turn();
                check_eq_int(told.ends, when == FREE_AT_END);
        }
        check(TAILQ_EMPTY(&loop->all));
        close_all();
}

int main(void)
{
        run(test_request);
        run(test_statuses);
        run(test_ends_in_the_middle);
        run(test_kept_connection);
        run(test_not_http);
        run(test_no_connection);
        run(test_redirects);
        run(test_redirects_elsewhere);
        run(test_headers_bound);
        run(test_head_values);
        run(test_pause);
        run(test_timeout);
        run(test_closing);
        run(test_frees_itself);
        return 0;
}
