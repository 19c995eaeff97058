/*
 * The pipes of one server process.
 *
 * Each turn of the loop reads once from each pipe, so that a server that writes without end does not
 * delay the others. A server that floods the hub with unexpected lines is not read for a moment: the full pipe
 * then blocks it.
 */
#include "supervisor/hub/transport/pipes.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "rpc/lines.h"
#include "rpc/memory-reservation.h"
#include "supervisor/hub/transport/transport.h"

struct pipes {
        struct transport transport; /* first */
        struct event_base *base;
        const struct connection_host *host;
        void *data;

        int fds[3]; /* stdin, stdout, stderr of the process; -1 when closed */
        struct event readable, stderr_readable, writable;
        struct event pause; /* after a flood */
        bool is_open;       /* the three events on descriptors are assigned */
        struct lines lines, stderr_lines;
        struct memory_reservation reservation; /* for a long line */
        struct large_line *long_line; /* parsed in the background; nothing is read meanwhile */
        struct event late;            /* a long line must be complete in time */
        bool has_ended;               /* stdout is at its end, behind the long line */
        struct buffer message;        /* that is prepared */
        struct evbuffer *queue;       /* to be written */
        struct rate junk_lines, junk_bytes, stderr_bytes, stderr_rate;
        char last_stderr[240];
        bool last_stderr_is_error;
};

static const char *name(const struct pipes *c)
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

static void pause_reading(struct pipes *c, struct event *event)
{
        struct timeval in = {.tv_usec = CONNECTION_PAUSE_MS * 1000L};

        event_del(event);
        if (!evtimer_pending(&c->pause, NULL))
                evtimer_add(&c->pause, &in);
}

/* Unless a long line is parsed, or waits for memory. */
static void start_reading(struct pipes *c)
{
        if (c->fds[1] >= 0 && !c->long_line && !c->reservation.waits)
                event_add(&c->readable, NULL);
}

static void on_pause_over(evutil_socket_t fd, short what, void *data)
{
        struct pipes *c = data;

        start_reading(c);
        if (c->fds[2] >= 0)
                event_add(&c->stderr_readable, NULL);
}

static bool take_lines(struct pipes *c);

/* A line was complete, or is skipped. */
static void end_long_line(struct pipes *c)
{
        memory_reservation_drop(&c->reservation);
        event_del(&c->late);
}

static void on_granted(void *data)
{
        start_reading(data);
}

/* Its memory is not kept until the server writes on. */
static void skip_line(struct pipes *c)
{
        struct buffer text = BUFFER_INIT(LINES_MAX);
        const char *line = NULL;
        size_t n = 0;

        event_del(&c->late);
        lines_skip(&c->lines, &line, &n);
        lines_take(&c->lines, n, &text);
        memory_reservation_drop(&c->reservation);
        c->host->late(c->data, line, n);
        background_free(text.data, text.allocated);
}

static void on_revoked(void *data)
{
        skip_line(data);
}

/* A line of which much has arrived needs memory that all servers share. */
static void reserve_memory(struct pipes *c)
{
        const struct timeval in = clock_timeval_ms(CONNECTION_LINE_MS);
        const struct memory_reservation_owner owner = {c->base, on_granted, on_revoked, c};

        if (c->reservation.bytes > 0 || c->lines.skipping ||
            lines_begun(&c->lines) <= RESERVATION_MIN)
                return;
        if (!memory_reservation_ask(&c->reservation, RESERVATION_LINES, LINES_MAX, &owner))
                event_del(&c->readable);
        event_add(&c->late, &in);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        struct pipes *c = data;
        const struct timeval in = clock_timeval_ms(CONNECTION_LINE_MS);

        /* The delay was not the server's. */
        if (c->reservation.waits)
                event_add(&c->late, &in);
        else
                skip_line(c);
}

static void end_output(struct pipes *c)
{
        close_one(&c->fds[1], &c->readable);
        c->host->cut(c->data);
}

static void on_parsed(void *data, struct large_line *line)
{
        struct pipes *c = data;
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
        reserve_memory(c);
        if (few)
                start_reading(c);
        else if (c->fds[1] >= 0)
                pause_reading(c, &c->readable);
}

/* Parses the line that was returned last in the background. */
static void take_long_line(struct pipes *c, size_t n)
{
        struct buffer text = BUFFER_INIT(LINES_MAX);

        event_del(&c->readable);
        event_del(&c->late);
        memory_reservation_complete(&c->reservation);
        if (lines_take(&c->lines, n, &text) >= 0)
                c->long_line = large_line_start(c->base, &text, true, on_parsed, c);
        if (!c->long_line && c->fds[1] >= 0)
                c->host->no_memory(c->data);
}

/* Handles the lines that have been read. Returns false when they are a flood. */
static bool take_lines(struct pipes *c)
{
        size_t junk_lines = 0, junk_bytes = 0, n = 0;
        const char *line = NULL;
        int r;

        while (c->fds[1] >= 0 && !c->long_line && (r = lines_next(&c->lines, &line, &n)) != 0) {
                if (r == 1 && n > RESERVATION_MIN) {
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

static void on_output_end(struct pipes *c)
{
        const char *line = NULL;
        size_t n = 0;
        int r = lines_rest(&c->lines, &line, &n);

        c->has_ended = true;
        if (r == 1 && n > RESERVATION_MIN) {
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
        struct pipes *c = data;
        ssize_t n = lines_read(&c->lines, fd);

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
        reserve_memory(c);
        if (!few)
                pause_reading(c, &c->readable);
}

/* Keeps the line that says most: the last that names an error, not the last of a stack trace. */
static void keep_stderr(struct pipes *c, const char *line, size_t n)
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

static void log_line(struct pipes *c, const char *line, size_t n, bool is_cut)
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
static ssize_t read_stderr(struct pipes *c)
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

static const char *last_stderr(struct transport *t)
{
        struct pipes *c = (void *)t;

        /* A pipe holds 64 KiB unless its size was changed. */
        for (int i = 0; i < 4 && c->fds[2] >= 0 && read_stderr(c) > 0; i++)
                ;
        return c->last_stderr;
}

static void on_stderr(evutil_socket_t fd, short what, void *data)
{
        struct pipes *c = data;
        ssize_t n = read_stderr(c);

        if (n == -EAGAIN)
                return;
        if (n <= 0)
                close_one(&c->fds[2], &c->stderr_readable);
        else if (!rate_allow(&c->stderr_bytes, (uint64_t)n, NULL))
                pause_reading(c, &c->stderr_readable);
}

/* Forgets the messages that wait to be written. */
static void drop_queue(struct pipes *c)
{
        evbuffer_drain(c->queue, evbuffer_get_length(c->queue));
}

static void flush(struct pipes *c)
{
        if (c->fds[0] < 0 || evbuffer_get_length(c->queue) == 0)
                return;
        if (evbuffer_write_atmost(c->queue, c->fds[0], PIPES_TURN) < 0 && errno != EAGAIN &&
            errno != EINTR) {
                drop_queue(c);
                close_one(&c->fds[0], &c->writable);
                c->host->cut(c->data);
        } else if (evbuffer_get_length(c->queue) > 0) {
                event_add(&c->writable, NULL);
        }
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        flush(data);
}

static size_t queued(const struct transport *t)
{
        return evbuffer_get_length(((const struct pipes *)(const void *)t)->queue);
}

static int prepare(struct transport *t, size_t n, struct buffer **to)
{
        struct pipes *c = (void *)t;

        if (c->fds[0] < 0)
                return -EPIPE;
        /* A single message is bounded by its author; several together are bounded here. */
        if (queued(t) > 0 && queued(t) + n > CONNECTION_QUEUE_MAX)
                return -EMSGSIZE;
        *to = &c->message;
        return 0;
}

static void drop_text(const void *bytes, size_t n, void *text)
{
        shared_text_unref(text);
}

/* Appends the message, its text, which is not copied, and the end: all or nothing. */
static int add_with_text(struct pipes *c, const struct outgoing *m)
{
        struct evbuffer *whole = evbuffer_new();
        struct shared_text *text = m->text;
        int r = -ENOMEM;

        if (!whole || evbuffer_add(whole, buffer_bytes(&c->message), c->message.length) < 0)
                goto end;
        if (evbuffer_add_reference(whole, text->bytes, text->n, drop_text, shared_text_ref(text)) <
            0)
                shared_text_unref(text);
        else if (evbuffer_add(whole, m->after, strlen(m->after)) == 0)
                r = evbuffer_add_buffer(c->queue, whole);
end:
        if (whole)
                evbuffer_free(whole);
        return r;
}

static int commit(struct transport *t, const struct outgoing *m)
{
        struct pipes *c = (void *)t;
        int r = m->text ? add_with_text(c, m)
                        : evbuffer_add(c->queue, buffer_bytes(&c->message), c->message.length);

        /* Not written before the caller has returned: a broken pipe ends the server, and with it the call
         * that the caller is working on. */
        if (r >= 0 && !event_pending(&c->writable, EV_WRITE, NULL))
                event_active(&c->writable, EV_WRITE, 0);
        buffer_consume(&c->message, c->message.length);
        return r < 0 ? -ENOMEM : 0;
}

static void abandon(struct transport *t)
{
        struct pipes *c = (void *)t;

        buffer_consume(&c->message, c->message.length);
}

static bool has_input(const struct transport *t)
{
        return ((const struct pipes *)(const void *)t)->fds[0] >= 0;
}

static bool has_output(const struct transport *t)
{
        return ((const struct pipes *)(const void *)t)->fds[1] >= 0;
}

/* Whether the process has read all that was sent. */
static bool is_read(const struct transport *t)
{
        const struct pipes *c = (const void *)t;
        int unread = 0;

        return c->fds[0] >= 0 && queued(t) == 0 && ioctl(c->fds[0], FIONREAD, &unread) == 0 &&
               unread == 0;
}

static void pipes_close(struct transport *t)
{
        struct pipes *c = (void *)t;

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
        drop_queue(c);
        buffer_done(&c->message);
        c->is_open = false;
}

static void pipes_free(struct transport *t)
{
        evbuffer_free(((struct pipes *)(void *)t)->queue);
        free(t);
}

static const struct transport_kind kind = {
        .takes_text = true,
        .free = pipes_free,
        .close = pipes_close,
        .prepare = prepare,
        .commit = commit,
        .abandon = abandon,
        .has_input = has_input,
        .has_output = has_output,
        .is_read = is_read,
        .queued = queued,
        .last_stderr = last_stderr,
};

void pipes_open(struct transport *t, const int fds[3])
{
        struct pipes *c = (void *)t;

        memcpy(c->fds, fds, sizeof(c->fds));
        for (int i = 0; i < 3; i++)
                fd_set_nonblocking(fds[i], 1);
        lines_init(&c->lines, LINES_MAX);
        lines_init(&c->stderr_lines, CONNECTION_STDERR_LINE_MAX);
        buffer_init(&c->message, CONNECTION_QUEUE_MAX + 1024 * 1024);
        event_assign(&c->writable, c->base, fds[0], EV_WRITE, on_writable, c);
        event_assign(&c->readable, c->base, fds[1], EV_READ | EV_PERSIST, on_readable, c);
        event_assign(&c->stderr_readable, c->base, fds[2], EV_READ | EV_PERSIST, on_stderr, c);
        c->is_open = true;
        event_add(&c->readable, NULL);
        event_add(&c->stderr_readable, NULL);
}

struct transport *pipes_new(struct event_base *base, const struct connection_host *host, void *data)
{
        const uint64_t second = 1000000, pause = CONNECTION_PAUSE_MS * 1000;
        struct pipes *c = malloc(sizeof(*c));
        struct evbuffer *queue = evbuffer_new();

        if (!c || !queue) {
                free(c);
                if (queue)
                        evbuffer_free(queue);
                return NULL;
        }
        *c = (struct pipes){
                .transport = {&kind},
                .base = base,
                .host = host,
                .data = data,
                .queue = queue,
                .fds = {-1, -1, -1},
                .junk_lines = {.window_us = pause, .most = 2000},
                .junk_bytes = {.window_us = pause, .most = 4 * 1024 * 1024},
                .stderr_bytes = {.window_us = pause, .most = 4 * 1024 * 1024},
                .stderr_rate = {.window_us = second, .most = 100},
        };
        evtimer_assign(&c->pause, base, on_pause_over, c);
        evtimer_assign(&c->late, base, on_late, c);
        return &c->transport;
}
