/*
 * One HTTP request and its response, by libcurl in the event loop.
 *
 * Theory of operation. libcurl registers the sockets that it waits for and its timer, and is called for
 * their events. Its callbacks only note what was received. The callbacks of owners run afterwards, so that they may
 * free any exchange: libcurl does not allow that inside its callbacks.
 */
#include "supervisor/hub/http/exchange.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cloister-config.h"

/* The value of a header of this name, or NULL. The line ends with \r\n. */
static const char *header_value(const char *line, size_t n, const char *name, size_t *length)
{
        size_t skip = strlen(name);

        if (n <= skip || line[skip] != ':' || strncasecmp(line, name, skip) != 0)
                return NULL;
        line += skip + 1;
        n -= skip + 1;
        while (n > 0 && (*line == ' ' || *line == '\t')) {
                line++;
                n--;
        }
        while (n > 0 && isspace((unsigned char)line[n - 1]))
                n--;
        *length = n;
        return line;
}

static void take_content_type(struct exchange_head *head, const char *value, size_t n)
{
        const char *end = memchr(value, ';', n);

        n = end ? (size_t)(end - value) : n;
        while (n > 0 && value[n - 1] == ' ')
                n--;
        if (n > EXCHANGE_CONTENT_TYPE_MAX)
                n = EXCHANGE_CONTENT_TYPE_MAX;
        for (size_t i = 0; i < n; i++)
                head->content_type[i] = (char)tolower((unsigned char)value[i]);
        head->content_type[n] = '\0';
}

/* "It MUST only contain visible ASCII characters" (2025-11-25, "Session Management"). */
static void take_session(struct exchange_head *head, const char *value, size_t n)
{
        head->session_is_bad = n == 0 || n > EXCHANGE_SESSION_MAX;
        for (size_t i = 0; i < n && !head->session_is_bad; i++)
                head->session_is_bad = value[i] <= ' ' || value[i] > '~';
        if (head->session_is_bad)
                n = 0;
        memcpy(head->session, value, n);
        head->session[n] = '\0';
}

static void take_challenge(struct exchange_head *head, const char *value, size_t n)
{
        size_t before = strlen(head->challenge);
        const char *comma = before > 0 ? ", " : "";

        if (before + strlen(comma) + n > EXCHANGE_CHALLENGE_MAX || memchr(value, '\0', n))
                return;
        snprintf(head->challenge + before, sizeof(head->challenge) - before, "%s%.*s", comma,
                 (int)n, value);
}

static void take_header(struct exchange_head *head, const char *line, size_t n)
{
        const char *value;
        size_t length;

        if ((value = header_value(line, n, "content-type", &length)))
                take_content_type(head, value, length);
        else if ((value = header_value(line, n, "mcp-session-id", &length)))
                take_session(head, value, length);
        else if ((value = header_value(line, n, "www-authenticate", &length)))
                take_challenge(head, value, length);
        else if (header_value(line, n, "location", &length))
                head->is_redirect = head->status / 100 == 3;
}

/* "HTTP/1.1 200 OK": of the response, of a 1xx before it, or of a proxy. */
static void begin(struct exchange_head *head, const char *line, size_t n)
{
        char text[32] = "";

        memcpy(text, line, n < sizeof(text) ? n : sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        const char *status = strchr(text, ' ');
        *head = (struct exchange_head){.status = status ? atoi(status + 1) : 0,
                                       .bytes = head->bytes};
}

int exchange_head_line(struct exchange_head *head, const char *line, size_t n)
{
        head->bytes += n;
        if (head->bytes > EXCHANGE_HEADERS_MAX)
                return -EMSGSIZE;
        if (head->is_whole) /* a trailer */
                return 0;
        if (n >= 5 && strncmp(line, "HTTP/", 5) == 0)
                begin(head, line, n);
        else if (n <= 2 && n > 0 && (line[0] == '\r' || line[0] == '\n'))
                head->is_whole = head->status >= 200;
        else
                take_header(head, line, n);
        return head->is_whole;
}

enum {
        IDLE_CONNECTIONS_MAX = 64, /* that are kept for the next request */
        TOLD_MAX = 64,             /* news in a turn of the loop */
};

/* An owner has a callback to be run. */
static void touch(struct exchange_loop *loop)
{
        event_active(&loop->ready, EV_TIMEOUT, 0);
}

/* ---- urls ---- */

DEFINE_CLEANUP(CURLU *, curl_url_cleanup)
#define _cleanup_url_ _cleanup_(cleanup_curl_url_cleanup)

static CURLU *parse_url(const char *url)
{
        CURLU *u = curl_url();

        if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK)
                return u;
        curl_url_cleanup(u);
        return NULL;
}

static char *origin_of(CURLU *u)
{
        char *scheme = NULL, *host = NULL, *port = NULL, *ret = NULL;

        if (curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
            curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
            curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
            asprintf(&ret, "%s://%s:%s", scheme, host, port) < 0)
                ret = NULL;
        curl_free(scheme);
        curl_free(host);
        curl_free(port);
        return ret;
}

char *exchange_origin(const char *url)
{
        _cleanup_url_ CURLU *u = parse_url(url);

        return u ? origin_of(u) : NULL;
}

char *exchange_resolve(const char *url, const char *reference)
{
        _cleanup_url_ CURLU *u = parse_url(url);
        _cleanup_free_ char *before = u ? origin_of(u) : NULL;
        char *resolved = NULL, *ret = NULL;

        if (!before || curl_url_set(u, CURLUPART_URL, reference, 0) != CURLUE_OK)
                return NULL;
        _cleanup_free_ char *after = origin_of(u);
        if (!after || strcasecmp(before, after) != 0 ||
            curl_url_get(u, CURLUPART_URL, &resolved, 0) != CURLUE_OK)
                return NULL;
        ret = strdup(resolved);
        curl_free(resolved);
        return ret;
}

/* ---- what libcurl brings ---- */

static size_t on_header(char *line, size_t size, size_t n, void *data)
{
        struct exchange *x = data;

        n *= size;
        int r = exchange_head_line(&x->head, line, n);
        if (r < 0) {
                snprintf(x->why, sizeof(x->why), "sends more than %d KiB of headers",
                         EXCHANGE_HEADERS_MAX / 1024);
                return 0;
        }
        if (r > 0)
                touch(x->loop);
        return n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *data)
{
        struct exchange *x = data;

        n *= size;
        if (!x->host || x->head.is_redirect)
                return n;
        if (x->body.length + n > EXCHANGE_KEPT_MAX && x->body.length > 0) {
                x->is_full = true;
                return CURL_WRITEFUNC_PAUSE;
        }
        if (buffer_append(&x->body, bytes, n) < 0) {
                snprintf(x->why, sizeof(x->why), "needs more memory than there is");
                return 0;
        }
        touch(x->loop);
        return n;
}

static size_t on_read(char *to, size_t size, size_t n, void *data)
{
        struct exchange *x = data;
        size_t rest = x->n_sent - x->sent_at;

        n *= size;
        if (n > rest)
                n = rest;
        if (n > 0)
                memcpy(to, x->sent + x->sent_at, n);
        x->sent_at += n;
        return n;
}

/* libcurl would send the body again over another connection when this one was closed before a response
 * came, but the server may have run the call. */
static int on_seek(void *data, curl_off_t offset, int origin)
{
        struct exchange *x = data;

        return offset == 0 && origin == SEEK_SET && x->sent_at == 0 ? CURL_SEEKFUNC_OK
                                                                    : CURL_SEEKFUNC_FAIL;
}

/* ---- the end ---- */

/* Copies a message of libcurl without control characters: parts of it may be from the server. */
static void copy_clean(char *to, size_t size, const char *from)
{
        size_t n = 0;

        for (; *from && n + 1 < size; from++)
                to[n++] = (unsigned char)*from < ' ' || *from == 0x7f ? ' ' : *from;
        to[n] = '\0';
}

static void describe(struct exchange *x, CURLcode result)
{
        _cleanup_free_ char *origin = exchange_origin(x->url);
        const char *to = origin ? origin : "the server";
        char text[sizeof(x->curl_error)];
        size_t size = sizeof(x->why);
        long os_error = 0;

        copy_clean(text, sizeof(text),
                   x->curl_error[0] ? x->curl_error : curl_easy_strerror(result));
        curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &os_error);
        switch (result) {
        case CURLE_COULDNT_RESOLVE_HOST:
                snprintf(x->why, size, "cannot resolve the name of %s", to);
                break;
        case CURLE_COULDNT_RESOLVE_PROXY:
                snprintf(x->why, size, "cannot resolve the name of the proxy to %s", to);
                break;
        case CURLE_COULDNT_CONNECT:
                snprintf(x->why, size, "cannot connect to %s: %s", to,
                         os_error ? strerrordesc_np((int)os_error) : "no connection");
                break;
        case CURLE_OPERATION_TIMEDOUT:
                snprintf(x->why, size,
                         x->head.status ? "%s did not complete its answer in time"
                                        : "%s did not answer in time",
                         to);
                break;
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_ISSUER_ERROR:
        case CURLE_SSL_INVALIDCERTSTATUS:
                snprintf(x->why, size, "TLS with %s failed: %.300s", to, text);
                break;
        case CURLE_GOT_NOTHING:
        case CURLE_PARTIAL_FILE:
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
        case CURLE_SEND_FAIL_REWIND:
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM:
                snprintf(x->why, size, "%s closed the connection before its answer was complete",
                         to);
                break;
        case CURLE_UNSUPPORTED_PROTOCOL:
        case CURLE_URL_MALFORMAT:
                /* An answer without a status line is also an unsupported protocol: HTTP/0.9. */
                if (strncmp(to, "http:", 5) == 0 || strncmp(to, "https:", 6) == 0)
                        snprintf(x->why, size, "%s does not speak HTTP: %.300s", to, text);
                else
                        snprintf(x->why, size, "its url is not a valid http or https url");
                break;
        case CURLE_WEIRD_SERVER_REPLY:
                snprintf(x->why, size, "%s does not speak HTTP: %.300s", to, text);
                break;
        default:
                snprintf(x->why, size, "%s: %.300s", to, text);
        }
}

static int restart(struct exchange *x, const char *url)
{
        free(x->url);
        x->url = strdup(url);
        curl_multi_remove_handle(x->loop->multi, x->easy);
        x->head = (struct exchange_head){.bytes = x->head.bytes};
        x->sent_at = 0;
        if (!x->url || curl_easy_setopt(x->easy, CURLOPT_URL, x->url) != CURLE_OK)
                return -ENOMEM;
        return curl_multi_add_handle(x->loop->multi, x->easy) == CURLM_OK ? 0 : -ENOMEM;
}

/* Returns whether the request is sent again. */
static bool follow(struct exchange *x)
{
        char *target = NULL;

        curl_easy_getinfo(x->easy, CURLINFO_REDIRECT_URL, &target);
        _cleanup_free_ char *same = target ? exchange_resolve(x->url, target) : NULL;
        _cleanup_free_ char *origin = target ? exchange_origin(target) : NULL;
        bool keeps = x->method == EXCHANGE_GET || x->head.status == 307 || x->head.status == 308;

        if (!same)
                snprintf(x->why, sizeof(x->why),
                         "redirects to another origin, %.200s, which is not followed: if that is "
                         "right, put it into the entry's url",
                         origin ? origin : "which is not an http or https url");
        else if (!keeps)
                snprintf(x->why, sizeof(x->why),
                         "redirects (HTTP status %d) in a way that loses the message: put the new "
                         "url into its entry",
                         x->head.status);
        else if (x->redirects++ == EXCHANGE_REDIRECTS_MAX)
                snprintf(x->why, sizeof(x->why), "redirects more than %d times",
                         EXCHANGE_REDIRECTS_MAX);
        else if (restart(x, same) < 0)
                snprintf(x->why, sizeof(x->why), "needs more memory than there is");
        else
                return true;
        return false;
}

static void finish(struct exchange *x, CURLcode result)
{
        /* When the connection ends inside the head, libcurl takes that for a whole response. */
        if (result == CURLE_OK && !x->head.is_whole)
                result = CURLE_GOT_NOTHING;
        if (result == CURLE_OK && x->head.is_redirect && follow(x))
                return;
        if (result != CURLE_OK && !x->why[0])
                describe(x, result);
        if (!x->head.is_whole)
                x->head.status = 0;
        x->is_done = true;
}

/* Runs one callback of the owner. Returns whether one was due. */
static bool tell(struct exchange *x)
{
        struct exchange_loop *loop = x->loop;

        if (!x->host) {
                if (x->is_done)
                        exchange_free(x);
                return !loop->told;
        }
        if (x->head.is_whole && !x->head.is_redirect && !x->head_told) {
                x->head_told = true;
                x->host->head(x->data);
                return true;
        }
        if (x->is_paused)
                return false;
        if (x->body.length > 0) {
                size_t used = x->host->body(x->data, buffer_bytes(&x->body), x->body.length);
                if (loop->told != x)
                        return true;
                buffer_consume(&x->body, used);
                if (x->is_full && x->body.length == 0) {
                        x->is_full = false;
                        curl_easy_pause(x->easy, CURLPAUSE_CONT);
                }
                return true;
        }
        if (!x->is_done || x->end_told)
                return false;
        x->end_told = true;
        x->host->end(x->data, x->why[0] ? x->why : NULL);
        return true;
}

/* ---- libcurl in the event loop ---- */

/* Which exchanges have ended. */
static void harvest(struct exchange_loop *loop)
{
        struct CURLMsg *message;
        int left;

        while ((message = curl_multi_info_read(loop->multi, &left))) {
                struct exchange *x = NULL;
                if (message->msg != CURLMSG_DONE)
                        continue;
                CURLcode result = message->data.result;
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&x);
                finish(x, result);
        }
        touch(loop);
}

static void on_socket(evutil_socket_t fd, short what, void *data)
{
        struct exchange_loop *loop = data;
        int running, flags = (what & EV_READ ? CURL_CSELECT_IN : 0) |
                             (what & EV_WRITE ? CURL_CSELECT_OUT : 0);

        curl_multi_socket_action(loop->multi, fd, flags, &running);
        harvest(loop);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct exchange_loop *loop = data;
        int running;

        curl_multi_socket_action(loop->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        harvest(loop);
}

/* libcurl: wait for this socket. assigned: its event, or NULL. */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *assigned)
{
        struct exchange_loop *loop = data;
        struct event *event = assigned;
        short flags = EV_PERSIST;

        if (event)
                event_free(event);
        curl_multi_assign(loop->multi, fd, NULL);
        if (what == CURL_POLL_REMOVE)
                return 0;
        if (what & CURL_POLL_IN)
                flags |= EV_READ;
        if (what & CURL_POLL_OUT)
                flags |= EV_WRITE;
        event = event_new(loop->base, fd, flags, on_socket, loop);
        if (!event || event_add(event, NULL) < 0)
                return -1;
        curl_multi_assign(loop->multi, fd, event);
        return 0;
}

static int set_timer(CURLM *multi, long ms, void *data)
{
        struct exchange_loop *loop = data;

        if (ms < 0) {
                evtimer_del(&loop->timer);
                return 0;
        }
        const struct timeval in = clock_timeval_ms((unsigned)ms);
        evtimer_add(&loop->timer, &in);
        return 0;
}

/* Runs one callback of one owner. Returns whether one was due. */
static bool tell_one(struct exchange_loop *loop)
{
        struct exchange *x;

        TAILQ_FOREACH (x, &loop->all, link) {
                loop->told = x;
                bool told = tell(x);
                if (!told)
                        continue;
                /* The others come before it now. */
                if (loop->told) {
                        TAILQ_REMOVE(&loop->all, x, link);
                        TAILQ_INSERT_TAIL(&loop->all, x, link);
                }
                loop->told = NULL;
                return true;
        }
        loop->told = NULL;
        return false;
}

static void on_ready(evutil_socket_t fd, short what, void *data)
{
        static const struct timeval now = {};
        struct exchange_loop *loop = data;
        int n = 0;

        while (n < TOLD_MAX && tell_one(loop))
                n++;
        /* By the timer, so that descriptors come first. */
        if (n == TOLD_MAX)
                event_add(&loop->ready, &now);
}

int exchange_loop_new(struct exchange_loop **ret, struct event_base *base)
{
        static bool is_initialised;

        if (!is_initialised && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return -ENOMEM;
        is_initialised = true;
        struct exchange_loop *loop = calloc(1, sizeof(*loop));
        CURLM *multi = loop ? curl_multi_init() : NULL;
        if (!multi) {
                free(loop);
                return -ENOMEM;
        }
        loop->base = base;
        loop->multi = multi;
        TAILQ_INIT(&loop->all);
        evtimer_assign(&loop->timer, base, on_timer, loop);
        evtimer_assign(&loop->ready, base, on_ready, loop);
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
        curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, loop);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
        curl_multi_setopt(multi, CURLMOPT_TIMERDATA, loop);
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS_MAX);
        *ret = loop;
        return 0;
}

/* The ends of sessions are still sent, where servers answer at once. */
static void linger(struct exchange_loop *loop)
{
        uint64_t until = clock_us() + EXCHANGE_LINGER_MS * 1000ULL;
        uint64_t now;
        int running;

        while (loop->n_left > 0 && (now = clock_us()) < until) {
                curl_multi_perform(loop->multi, &running);
                harvest(loop);
                while (tell_one(loop))
                        ;
                if (loop->n_left > 0)
                        curl_multi_poll(loop->multi, NULL, 0, (int)((until - now) / 1000) + 1,
                                        NULL);
        }
}

struct exchange_loop *exchange_loop_free(struct exchange_loop *loop)
{
        struct exchange *x;

        if (!loop)
                return NULL;
        linger(loop);
        while ((x = TAILQ_FIRST(&loop->all)))
                exchange_free(x);
        curl_multi_cleanup(loop->multi);
        event_del(&loop->timer);
        event_del(&loop->ready);
        free(loop);
        return NULL;
}

/* ---- its life ---- */

/* libcurl leaves out a header without a value, unless it is written "NAME;". */
static struct curl_slist *append_header(struct curl_slist *list, const char *header)
{
        size_t name = strcspn(header, ":");

        if (header[name + strspn(header + name, ": ")] != '\0')
                return curl_slist_append(list, header);
        _cleanup_free_ char *empty = NULL;
        if (asprintf(&empty, "%.*s;", (int)name, header) < 0)
                empty = NULL;
        return empty ? curl_slist_append(list, empty) : NULL;
}

static int add_headers(struct exchange *x, const char *const *headers)
{
        /* libcurl would wait for "100 Continue" before a long body. */
        struct curl_slist *list = curl_slist_append(NULL, "Expect:");

        for (; list && headers && *headers; headers++) {
                struct curl_slist *longer = append_header(list, *headers);
                if (!longer)
                        curl_slist_free_all(list);
                list = longer;
        }
        x->headers = list;
        return list ? 0 : -ENOMEM;
}

static void set_method(struct exchange *x, const struct exchange_request *request)
{
        CURL *easy = x->easy;

        if (request->method == EXCHANGE_GET) {
                curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        } else if (request->method == EXCHANGE_DELETE) {
                curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
        } else {
                curl_easy_setopt(easy, CURLOPT_POST, 1L);
                curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
                curl_easy_setopt(easy, CURLOPT_READDATA, x);
                curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
                curl_easy_setopt(easy, CURLOPT_SEEKDATA, x);
                curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->n);
        }
}

static int set_up(struct exchange *x, const struct exchange_request *request)
{
        CURL *easy = x->easy;

        if (add_headers(x, request->headers) < 0 ||
            curl_easy_setopt(easy, CURLOPT_URL, x->url) != CURLE_OK ||
            curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK)
                return -ENOMEM;
        curl_easy_setopt(easy, CURLOPT_PRIVATE, x);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, x->headers);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, x->curl_error);
        curl_easy_setopt(easy, CURLOPT_USERAGENT, "cloister/" CLOISTER_VERSION);
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* never wait for the resolver's thread */
        curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
        curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)EXCHANGE_CONNECT_MS);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
        set_method(x, request);
        return curl_multi_add_handle(x->loop->multi, x->easy) == CURLM_OK ? 0 : -ENOMEM;
}

struct exchange *exchange_start(struct exchange_loop *loop, const struct exchange_request *request,
                                const struct exchange_host *host, void *data, struct error *err)
{
        struct exchange *x = NULL;

        if (!host && loop->n_left == EXCHANGE_CLOSING_MAX) {
                error_set(err, EAGAIN, "too many sessions end at once");
                return NULL;
        }
        x = calloc(1, sizeof(*x));
        if (!x) {
                error_errno(err, ENOMEM, "HTTP request");
                return NULL;
        }
        x->loop = loop;
        x->host = host;
        x->data = data;
        x->method = request->method;
        x->sent = request->body;
        x->n_sent = request->n;
        buffer_init(&x->body, 2 * EXCHANGE_KEPT_MAX + CURL_MAX_WRITE_SIZE);
        x->url = strdup(request->url);
        x->easy = curl_easy_init();
        TAILQ_INSERT_TAIL(&loop->all, x, link);
        loop->n_left += !host;
        if (!x->url || !x->easy || set_up(x, request) < 0) {
                error_errno(err, ENOMEM, "HTTP request");
                return exchange_free(x);
        }
        return x;
}

struct exchange *exchange_free(struct exchange *x)
{
        if (!x)
                return NULL;
        if (x->loop->told == x)
                x->loop->told = NULL;
        TAILQ_REMOVE(&x->loop->all, x, link);
        x->loop->n_left -= !x->host;
        if (x->easy) {
                curl_multi_remove_handle(x->loop->multi, x->easy);
                curl_easy_cleanup(x->easy);
        }
        curl_slist_free_all(x->headers);
        buffer_done(&x->body);
        free(x->url);
        free(x);
        return NULL;
}

void exchange_pause(struct exchange *x)
{
        x->is_paused = true;
}

void exchange_resume(struct exchange *x)
{
        x->is_paused = false;
        touch(x->loop);
}
