/*
 * A server's pipes. Its stdout is messages, one a line; its stderr goes to the log; what we send
 * waits in a queue.
 *
 * Each turn of the loop reads once from each pipe, so that a server that talks without end delays
 * nobody. One that floods us with what we did not ask for is read no further for a moment: the pipe
 * then holds it back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "cloister-config.h"
#include "supervisor/hub/hub-internal.h"

/* What every request of MCP 2026-07-28 carries, as a member of its params. */
static const char about_us[] =
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{},\"io.modelcontextprotocol/clientInfo\":{\"name\":\"cloister\",\"version\":\"" CLOISTER_VERSION
        "\"}}";

static void close_one(int *fd, struct event *event)
{
        if (*fd < 0)
                return;
        event_del(event);
        close(*fd);
        *fd = -1;
}

static void pause_reading(struct hub_server *s, struct event *event)
{
        struct timeval in = {.tv_usec = HUB_PAUSE_MS * 1000L};

        event_del(event);
        if (!evtimer_pending(&s->pause, NULL))
                evtimer_add(&s->pause, &in);
}

static void on_pause_over(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;

        (void)fd;
        (void)what;
        if (s->fds[1] >= 0)
                event_add(&s->readable, NULL);
        if (s->fds[2] >= 0)
                event_add(&s->log_readable, NULL);
}

bool hub_server_may_warn(struct hub_server *s)
{
        uint64_t missed = 0;
        bool allowed = rate_allow(&s->warn_rate, 1, &missed);

        if (missed > 0)
                log_warning("server %s: %llu more warnings like these were not written",
                            s->config->name, (unsigned long long)missed);
        return allowed;
}

/* A message above the bound, of which this is the beginning. */
static void on_oversized(struct hub_server *s, const char *line, size_t n)
{
        struct hub_call *call = hub_call_guess(s, line, n);

        if (hub_server_may_warn(s))
                log_warning("server %s: skipped a line of more than %d MiB", s->config->name,
                            LINES_MOST / (1024 * 1024));
        if (call)
                hub_call_spoiled(call, "it is larger than 64 MiB");
}

/* Takes the lines that are there. Returns false when what came is a flood. */
static bool take_lines(struct hub_server *s)
{
        size_t junk_lines = 0, junk_bytes = 0, n = 0;
        const char *line = NULL;
        int r;

        while (s->fds[1] >= 0 && (r = lines_next(&s->lines, &line, &n)) != 0) {
                if (r == -EMSGSIZE)
                        on_oversized(s, line, n);
                if (r == 1 && hub_server_message(s, line, n))
                        continue;
                junk_lines++;
                junk_bytes += n;
        }
        bool few = rate_allow(&s->junk_lines, junk_lines, NULL);
        return rate_allow(&s->junk_bytes, junk_bytes, NULL) && few;
}

static void on_output_end(struct hub_server *s)
{
        const char *line = NULL;
        size_t n = 0;

        if (lines_rest(&s->lines, &line, &n) == 1)
                hub_server_message(s, line, n);
        /* The message may have ended the server. */
        if (s->fds[1] < 0)
                return;
        close_one(&s->fds[1], &s->readable);
        hub_server_cut(s);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;
        ssize_t n = lines_read(&s->lines, fd);

        (void)what;
        if (n == -EAGAIN)
                return;
        if (n == -ENOMEM) {
                hub_server_failf(s, "no memory for its output");
                return;
        }
        if (n <= 0) {
                on_output_end(s);
                return;
        }
        if (!take_lines(s) && s->fds[1] >= 0)
                pause_reading(s, &s->readable);
}

/* The line that tells most is the last one that speaks of an error, not the last of a stack trace.
 */
static void remember_words(struct hub_server *s, const char *line, size_t n)
{
        bool tells = line[0] != ' ' && line[0] != '\t' && memmem(line, n, "rror", 4);

        if (s->last_words_tell && !tells)
                return;
        if (n >= sizeof(s->last_words))
                n = sizeof(s->last_words) - 1;
        memcpy(s->last_words, line, n);
        s->last_words[n] = '\0';
        s->last_words_tell = tells;
}

static void log_line(struct hub_server *s, const char *line, size_t n, bool is_cut)
{
        uint64_t missed = 0;
        bool allowed = rate_allow(&s->log_rate, 1, &missed);

        remember_words(s, line, n);
        if (missed > 0)
                log_info("%s: (%llu lines of its stderr were not written)", s->config->name,
                         (unsigned long long)missed);
        if (allowed)
                log_info("%s: %.*s%s", s->config->name, (int)n, line, is_cut ? "…" : "");
}

/* Reads once from its stderr. Returns as lines_read(). */
static ssize_t read_log(struct hub_server *s)
{
        const char *line = NULL;
        size_t length = 0;
        int r;

        ssize_t n = lines_read(&s->log_lines, s->fds[2]);
        if (n == 0 && lines_rest(&s->log_lines, &line, &length) == 1)
                log_line(s, line, length, false);
        while (n > 0 && (r = lines_next(&s->log_lines, &line, &length)) != 0)
                log_line(s, line, length, r < 0);
        return n;
}

void hub_server_drain_log(struct hub_server *s)
{
        /* A pipe holds 64 KiB unless somebody changed it. */
        for (int i = 0; i < 4 && s->fds[2] >= 0 && read_log(s) > 0; i++)
                ;
}

static void on_log_readable(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;
        ssize_t n = read_log(s);

        (void)fd;
        (void)what;
        if (n == -EAGAIN)
                return;
        if (n <= 0)
                close_one(&s->fds[2], &s->log_readable);
        else if (!rate_allow(&s->log_bytes, (uint64_t)n, NULL))
                pause_reading(s, &s->log_readable);
}

static void flush(struct hub_server *s)
{
        if (s->fds[0] < 0)
                return;
        int r = buffer_write_fd(&s->queue, s->fds[0]);
        if (r == 0)
                event_add(&s->writable, NULL);
        if (r >= 0)
                return;
        buffer_done(&s->queue);
        close_one(&s->fds[0], &s->writable);
        hub_server_cut(s);
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        (void)fd;
        (void)what;
        flush(data);
}

/* What was appended goes out as soon as it can, but not before our caller has returned: a broken
 * pipe ends the server, and the caller's call with it. */
void hub_server_sent(struct hub_server *s)
{
        if (!event_pending(&s->writable, EV_WRITE, NULL))
                event_active(&s->writable, EV_WRITE, 0);
}

static int may_queue(const struct hub_server *s, size_t n)
{
        if (s->fds[0] < 0)
                return -EPIPE;
        /* A single message is bounded by who made it; several together are bounded here. */
        if (s->queue.length > 0 && s->queue.length + n > HUB_QUEUE_MAX)
                return -EMSGSIZE;
        return 0;
}

int hub_server_request(struct hub_server *s, int64_t id, const char *method, const char *params,
                       size_t n)
{
        int r = may_queue(s, n);

        if (r >= 0)
                r = jsonrpc_append_request_with(&s->queue, id, method,
                                                s->speaks == HUB_ERA_MODERN ? about_us : NULL,
                                                params, n);
        if (r >= 0)
                hub_server_sent(s);
        return r;
}

int hub_server_notify(struct hub_server *s, const char *method, const char *params, size_t n)
{
        int r = may_queue(s, n);

        if (r >= 0)
                r = jsonrpc_append_notification(&s->queue, method, params, n);
        if (r >= 0)
                hub_server_sent(s);
        return r;
}

void hub_server_assign(struct hub_server *s)
{
        evtimer_assign(&s->pause, s->hub->base, on_pause_over, s);
        evtimer_assign(&s->relist, s->hub->base, hub_server_on_relist, s);
        evtimer_assign(&s->probe, s->hub->base, hub_handshake_on_probe, s);
        evtimer_assign(&s->relisten, s->hub->base, hub_handshake_on_relisten, s);
}

void hub_server_open(struct hub_server *s, const int fds[3])
{
        struct event_base *base = s->hub->base;

        memcpy(s->fds, fds, sizeof(s->fds));
        for (int i = 0; i < 3; i++)
                fd_set_nonblocking(fds[i], 1);
        lines_init(&s->lines, LINES_MOST);
        lines_init(&s->log_lines, HUB_STDERR_LINE_MAX);
        buffer_init(&s->queue, HUB_QUEUE_MAX + 1024 * 1024);
        event_assign(&s->writable, base, fds[0], EV_WRITE, on_writable, s);
        event_assign(&s->readable, base, fds[1], EV_READ | EV_PERSIST, on_readable, s);
        event_assign(&s->log_readable, base, fds[2], EV_READ | EV_PERSIST, on_log_readable, s);
        s->has_events = true;
        event_add(&s->readable, NULL);
        event_add(&s->log_readable, NULL);
}

void hub_server_close(struct hub_server *s)
{
        if (!s->has_events)
                return;
        close_one(&s->fds[0], &s->writable);
        close_one(&s->fds[1], &s->readable);
        close_one(&s->fds[2], &s->log_readable);
        event_del(&s->pause);
        lines_done(&s->lines);
        lines_done(&s->log_lines);
        buffer_done(&s->queue);
        s->has_events = false;
}
