/*
 * The pipes of one server process.
 *
 * Each turn of the loop reads once from each pipe, so that a server that writes without end delays
 * nobody. A server that floods the hub with unexpected lines is not read for a moment: the full pipe
 * then blocks it.
 */
#include "supervisor/hub/connection.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cloister-config.h"
#include "rpc/claim.h"
#include "rpc/client-request.h"
#include "rpc/lines.h"
#include "supervisor/hub/rate.h"

enum { RESPONSES_QUEUED_MAX = 1024 * 1024 };

/* What every request of MCP 2026-07-28 carries, as members of _meta, before and behind the capabilities. */
#define META "io.modelcontextprotocol/"
static const char fields_before[] = "\"" META "protocolVersion\":\"2026-07-28\",\"" META
                                    "clientCapabilities\":{";
static const char fields_behind[] =
        "},\"" META "clientInfo\":{\"name\":\"cloister\",\"version\":\"" CLOISTER_VERSION "\"}";
static const char tasks[] = "\"extensions\":{\"" META "tasks\":{}}";
enum { META_MAX = 2048 };

struct connection {
        struct event_base *base;
        const struct connection_host *host;
        void *data;

        int fds[3]; /* stdin, stdout, stderr of the process; -1 when closed */
        struct event readable, stderr_readable, writable;
        struct event pause; /* after a flood */
        bool is_open;       /* the three events on descriptors are assigned */
        bool is_modern;
        int64_t last_id;
        struct lines lines, stderr_lines;
        struct claim claim;           /* for a long line */
        struct large_line *long_line; /* parsed in the background; nothing is read meanwhile */
        struct event late;            /* a long line must be complete in time */
        bool has_ended;               /* stdout is at its end, behind the long line */
        struct buffer queue;          /* to be written */
        struct rate junk_lines, junk_bytes, stderr_bytes, stderr_rate, warn_rate;
        char last_stderr[240];
        bool last_stderr_is_error;
};

static const char *name(const struct connection *c)
{
        return c->host->name(c->data);
}

static void close_one(int *fd, struct event *event)
{
        if (*fd < 0)
                return;
        event_del(event);
        close(*fd);
        *fd = -1;
}

static void pause_reading(struct connection *c, struct event *event)
{
        struct timeval in = {.tv_usec = CONNECTION_PAUSE_MS * 1000L};

        event_del(event);
        if (!evtimer_pending(&c->pause, NULL))
                evtimer_add(&c->pause, &in);
}

/* Unless a long line is parsed, or waits for memory. */
static void start_reading(struct connection *c)
{
        if (c->fds[1] >= 0 && !c->long_line && !c->claim.waits)
                event_add(&c->readable, NULL);
}

static void on_pause_over(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;

        (void)fd;
        (void)what;
        start_reading(c);
        if (c->fds[2] >= 0)
                event_add(&c->stderr_readable, NULL);
}

bool connection_may_warn(struct connection *c)
{
        uint64_t missed = 0;
        bool allowed = rate_allow(&c->warn_rate, 1, &missed);

        if (missed > 0)
                log_warning("server %s: %llu more warnings like these were not written", name(c),
                            (unsigned long long)missed);
        return allowed;
}

static bool take_lines(struct connection *c);

/* A line was complete, or is skipped. */
static void end_long_line(struct connection *c)
{
        claim_drop(&c->claim);
        event_del(&c->late);
}

static void on_claim(void *data)
{
        start_reading(data);
}

/* A line of which much has arrived needs memory that all peers share. */
static void claim_memory(struct connection *c)
{
        const struct timeval in = clock_timeval_ms(CONNECTION_LINE_MS);

        if (c->claim.bytes > 0 || c->lines.skipping || lines_begun(&c->lines) <= CLAIM_MIN)
                return;
        if (!claim_ask(&c->claim, LINES_MAX, on_claim, c))
                event_del(&c->readable);
        event_add(&c->late, &in);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;
        const char *line = NULL;
        size_t n = 0;

        /* It was not the server that did not go on. */
        if (c->claim.waits) {
                const struct timeval in = clock_timeval_ms(CONNECTION_LINE_MS);
                event_add(&c->late, &in);
                return;
        }
        lines_skip(&c->lines, &line, &n);
        claim_drop(&c->claim);
        c->host->late(c->data, line, n);
}

static void end_output(struct connection *c)
{
        close_one(&c->fds[1], &c->readable);
        c->host->cut(c->data);
}

static void on_parsed(void *data, struct large_line *line)
{
        struct connection *c = data;
        uint64_t n = line->text.length;

        c->long_line = NULL;
        end_long_line(c);
        bool expected = c->host->parsed(c->data, line);
        if (c->fds[1] < 0)
                return;
        bool few = expected || rate_allow(&c->junk_bytes, n, NULL);
        if (c->has_ended) {
                end_output(c);
                return;
        }
        few = take_lines(c) && few;
        claim_memory(c);
        if (few)
                start_reading(c);
        else if (c->fds[1] >= 0)
                pause_reading(c, &c->readable);
}

/* Parses the line that was returned last in the background. */
static void take_long_line(struct connection *c, size_t n)
{
        struct buffer text = BUFFER_INIT(LINES_MAX);

        event_del(&c->readable);
        if (lines_take(&c->lines, n, &text) >= 0)
                c->long_line = large_line_start(c->base, &text, true, on_parsed, c);
        if (!c->long_line && c->fds[1] >= 0)
                c->host->no_memory(c->data);
}

/* Handles the lines that have been read. Returns false when they are a flood. */
static bool take_lines(struct connection *c)
{
        size_t junk_lines = 0, junk_bytes = 0, n = 0;
        const char *line = NULL;
        int r;

        while (c->fds[1] >= 0 && !c->long_line && (r = lines_next(&c->lines, &line, &n)) != 0) {
                if (r == 1 && n > CLAIM_MIN) {
                        take_long_line(c, n);
                        break;
                }
                if (r == -EMSGSIZE) {
                        end_long_line(c);
                        c->host->oversized(c->data, line, n);
                }
                if (r == 1 && c->host->line(c->data, line, n))
                        continue;
                junk_lines++;
                junk_bytes += n;
        }
        bool few = rate_allow(&c->junk_lines, junk_lines, NULL);
        return rate_allow(&c->junk_bytes, junk_bytes, NULL) && few;
}

static void on_output_end(struct connection *c)
{
        const char *line = NULL;
        size_t n = 0;
        int r = lines_rest(&c->lines, &line, &n);

        c->has_ended = true;
        if (r == 1 && n > CLAIM_MIN) {
                take_long_line(c, n);
                return;
        }
        if (r == 1)
                c->host->line(c->data, line, n);
        /* The message may have closed the connection. */
        if (c->fds[1] >= 0)
                end_output(c);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;
        ssize_t n = lines_read(&c->lines, fd);

        (void)what;
        if (n == -EAGAIN)
                return;
        if (n == -ENOMEM) {
                c->host->no_memory(c->data);
                return;
        }
        if (n <= 0) {
                on_output_end(c);
                return;
        }
        bool few = take_lines(c);
        if (c->fds[1] < 0)
                return;
        claim_memory(c);
        if (!few)
                pause_reading(c, &c->readable);
}

/* Keeps the line that says most: the last that names an error, not the last of a stack trace. */
static void keep_stderr(struct connection *c, const char *line, size_t n)
{
        bool is_error = line[0] != ' ' && line[0] != '\t' && memmem(line, n, "rror", 4);

        if (c->last_stderr_is_error && !is_error)
                return;
        if (n >= sizeof(c->last_stderr))
                n = sizeof(c->last_stderr) - 1;
        memcpy(c->last_stderr, line, n);
        c->last_stderr[n] = '\0';
        c->last_stderr_is_error = is_error;
}

static void log_line(struct connection *c, const char *line, size_t n, bool is_cut)
{
        uint64_t missed = 0;
        bool allowed = rate_allow(&c->stderr_rate, 1, &missed);

        keep_stderr(c, line, n);
        if (missed > 0)
                log_info("%s: (%llu lines of its stderr were not written)", name(c),
                         (unsigned long long)missed);
        if (allowed)
                log_info("%s: %.*s%s", name(c), (int)n, line, is_cut ? "…" : "");
}

/* Reads once from its stderr. Returns as lines_read(). */
static ssize_t read_stderr(struct connection *c)
{
        const char *line = NULL;
        size_t length = 0;
        int r;

        ssize_t n = lines_read(&c->stderr_lines, c->fds[2]);
        if (n == 0 && lines_rest(&c->stderr_lines, &line, &length) == 1)
                log_line(c, line, length, false);
        while (n > 0 && (r = lines_next(&c->stderr_lines, &line, &length)) != 0)
                log_line(c, line, length, r < 0);
        return n;
}

const char *connection_last_stderr(struct connection *c)
{
        /* A pipe holds 64 KiB unless its size was changed. */
        for (int i = 0; i < 4 && c->fds[2] >= 0 && read_stderr(c) > 0; i++)
                ;
        return c->last_stderr;
}

static void on_stderr(evutil_socket_t fd, short what, void *data)
{
        struct connection *c = data;
        ssize_t n = read_stderr(c);

        (void)fd;
        (void)what;
        if (n == -EAGAIN)
                return;
        if (n <= 0)
                close_one(&c->fds[2], &c->stderr_readable);
        else if (!rate_allow(&c->stderr_bytes, (uint64_t)n, NULL))
                pause_reading(c, &c->stderr_readable);
}

static void flush(struct connection *c)
{
        if (c->fds[0] < 0)
                return;
        int r = buffer_write_fd(&c->queue, c->fds[0]);
        if (r == 0)
                event_add(&c->writable, NULL);
        if (r >= 0)
                return;
        buffer_done(&c->queue);
        close_one(&c->fds[0], &c->writable);
        c->host->cut(c->data);
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        (void)fd;
        (void)what;
        flush(data);
}

/* Not written before the caller has returned: a broken pipe ends the server, and with it the call
 * that the caller is working on. */
static void write_soon(struct connection *c)
{
        if (!event_pending(&c->writable, EV_WRITE, NULL))
                event_active(&c->writable, EV_WRITE, 0);
}

static int may_queue(const struct connection *c, size_t n)
{
        if (c->fds[0] < 0)
                return -EPIPE;
        /* A single message is bounded by its author; several together are bounded here. */
        if (c->queue.length > 0 && c->queue.length + n > CONNECTION_QUEUE_MAX)
                return -EMSGSIZE;
        return 0;
}

static int append_modern(const struct connection_call *call, struct buffer *to)
{
        int r = buffer_append_text(to, fields_before);

        if (r >= 0 && call)
                r = client_can_append(call->can, to);
        if (r >= 0 && call && call->takes_tasks)
                r = buffer_printf(to, "%s%s", call->can ? "," : "", tasks);
        if (r >= 0)
                r = buffer_append_text(to, fields_behind);
        if (r >= 0 && call && call->log_level)
                r = buffer_printf(to, ",\"" META "logLevel\":\"%s\"", call->log_level);
        return r;
}

/* The member _meta and a NUL. call: NULL, or of a call. */
static int append_meta(const struct connection *c, const struct connection_call *call, int64_t id,
                       struct buffer *to)
{
        int r = buffer_append_text(to, "\"_meta\":{");

        if (r >= 0 && c->is_modern)
                r = append_modern(call, to);
        if (r >= 0 && call)
                r = buffer_printf(to, "%s\"progressToken\":%lld", c->is_modern ? "," : "",
                                  (long long)id);
        return r < 0 ? r : buffer_append(to, "}", 2);
}

static int64_t send_request(struct connection *c, const char *method,
                            const struct connection_call *call, const char *params, size_t n)
{
        _cleanup_buffer_ struct buffer meta = BUFFER_INIT(META_MAX);
        bool has_meta = c->is_modern || call;
        int64_t id = ++c->last_id;
        int r = may_queue(c, n);

        if (r >= 0 && has_meta)
                r = append_meta(c, call, id, &meta);
        if (r >= 0)
                r = jsonrpc_append_request_with(&c->queue, id, method,
                                                has_meta ? buffer_bytes(&meta) : NULL, params, n);
        if (r < 0)
                return r;
        write_soon(c);
        return id;
}

int64_t connection_request(struct connection *c, const char *method, const char *params, size_t n)
{
        return send_request(c, method, NULL, params, n);
}

int64_t connection_call(struct connection *c, const char *method,
                        const struct connection_call *call, const char *params, size_t n)
{
        return send_request(c, method, call, params, n);
}

int connection_notify(struct connection *c, const char *method, const char *params, size_t n)
{
        int r = may_queue(c, n);

        if (r >= 0)
                r = jsonrpc_append_notification(&c->queue, method, params, n);
        if (r >= 0)
                write_soon(c);
        return r;
}

void connection_respond(struct connection *c, yyjson_val *id, const char *result)
{
        /* A server that asks without reading must not make the queue grow. */
        if (c->fds[0] < 0 || c->queue.length > RESPONSES_QUEUED_MAX)
                return;
        if (result)
                jsonrpc_append_result(&c->queue, id, result, strlen(result));
        else
                jsonrpc_append_error(&c->queue, id, JSONRPC_METHOD_NOT_FOUND, "Method not found",
                                     NULL, 0);
        write_soon(c);
}

void connection_refuse(struct connection *c, yyjson_val *id, int code, const char *why)
{
        if (c->fds[0] < 0 || c->queue.length > RESPONSES_QUEUED_MAX)
                return;
        jsonrpc_append_error(&c->queue, id, code, why, NULL, 0);
        write_soon(c);
}

int64_t connection_last_id(const struct connection *c)
{
        return c->last_id;
}

void connection_set_modern(struct connection *c, bool is_modern)
{
        c->is_modern = is_modern;
}

bool connection_is_open(const struct connection *c)
{
        return c->is_open;
}

bool connection_has_input(const struct connection *c)
{
        return c->fds[0] >= 0;
}

bool connection_has_output(const struct connection *c)
{
        return c->fds[1] >= 0;
}

bool connection_is_read(const struct connection *c)
{
        int unread = 0;

        return c->fds[0] >= 0 && c->queue.length == 0 && ioctl(c->fds[0], FIONREAD, &unread) == 0 &&
               unread == 0;
}

size_t connection_queued(const struct connection *c)
{
        return c->queue.length;
}

void connection_open(struct connection *c, const int fds[3])
{
        memcpy(c->fds, fds, sizeof(c->fds));
        for (int i = 0; i < 3; i++)
                fd_set_nonblocking(fds[i], 1);
        c->last_id = 0;
        c->is_modern = false;
        lines_init(&c->lines, LINES_MAX);
        lines_init(&c->stderr_lines, CONNECTION_STDERR_LINE_MAX);
        buffer_init(&c->queue, CONNECTION_QUEUE_MAX + 1024 * 1024);
        event_assign(&c->writable, c->base, fds[0], EV_WRITE, on_writable, c);
        event_assign(&c->readable, c->base, fds[1], EV_READ | EV_PERSIST, on_readable, c);
        event_assign(&c->stderr_readable, c->base, fds[2], EV_READ | EV_PERSIST, on_stderr, c);
        c->is_open = true;
        event_add(&c->readable, NULL);
        event_add(&c->stderr_readable, NULL);
}

void connection_close(struct connection *c)
{
        c->last_stderr[0] = '\0';
        c->last_stderr_is_error = false;
        if (!c->is_open)
                return;
        close_one(&c->fds[0], &c->writable);
        close_one(&c->fds[1], &c->readable);
        close_one(&c->fds[2], &c->stderr_readable);
        event_del(&c->pause);
        c->long_line = large_line_cancel(c->long_line);
        end_long_line(c);
        c->has_ended = false;
        lines_done(&c->lines);
        lines_done(&c->stderr_lines);
        buffer_done(&c->queue);
        c->is_open = false;
}

struct connection *connection_new(struct event_base *base, const struct connection_host *host,
                                  void *data)
{
        const uint64_t second = 1000000, pause = CONNECTION_PAUSE_MS * 1000;
        struct connection *c = malloc(sizeof(*c));

        if (!c)
                return NULL;
        *c = (struct connection){
                .base = base,
                .host = host,
                .data = data,
                .fds = {-1, -1, -1},
                .junk_lines = {.window_us = pause, .most = 2000},
                .junk_bytes = {.window_us = pause, .most = 4 * 1024 * 1024},
                .stderr_bytes = {.window_us = pause, .most = 4 * 1024 * 1024},
                .stderr_rate = {.window_us = second, .most = 100},
                .warn_rate = {.window_us = 60 * second, .most = 10},
        };
        evtimer_assign(&c->pause, base, on_pause_over, c);
        evtimer_assign(&c->late, base, on_late, c);
        return c;
}

struct connection *connection_free(struct connection *c)
{
        if (!c)
                return NULL;
        connection_close(c);
        event_del(&c->pause);
        event_del(&c->late);
        free(c);
        return NULL;
}
