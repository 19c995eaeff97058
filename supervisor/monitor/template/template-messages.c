/* The standard error of a template. */
#include "supervisor/monitor/template/template-messages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

enum { LINE_SIZE = 1024, DROP_SIZE = 64 * 1024 };

struct template_messages {
        int fd;
        struct event *readable, *pause;
        uint64_t period_ms; /* when it began */
        size_t logged;      /* bytes, in this period */
        uint64_t dropped;
};

static void report_dropped(struct template_messages *m)
{
        if (m->dropped > 0)
                log_warning("template: %" PRIu64 " bytes more of its messages were dropped",
                            m->dropped);
        m->dropped = 0;
}

/* The text is untrusted: the log escapes control characters. */
static void log_some(struct template_messages *m)
{
        char text[LINE_SIZE];

        ssize_t n = read(m->fd, text, sizeof(text) - 1);
        if (n <= 0) {
                event_del(m->readable);
                return;
        }
        m->logged += (size_t)n;
        while (n > 0 && text[n - 1] == '\n')
                n--;
        text[n] = '\0';
        log_info("template: %s", text);
}

/* The template waits while the pipe is full. */
static void drop_some(struct template_messages *m)
{
        static char text[DROP_SIZE];

        ssize_t n = read(m->fd, text, sizeof(text));
        event_del(m->readable);
        if (n <= 0)
                return;
        m->dropped += (uint64_t)n;
        event_add(m->pause, &(struct timeval){.tv_usec = TEMPLATE_MESSAGES_PAUSE_MS * 1000});
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct template_messages *m = data;
        uint64_t now = clock_ms();
        if (now >= m->period_ms + TEMPLATE_MESSAGES_PERIOD_MS) {
                report_dropped(m);
                m->period_ms = now;
                m->logged = 0;
        }
        if (m->logged < TEMPLATE_MESSAGES_BUDGET)
                log_some(m);
        else
                drop_some(m);
}

static void on_pause_end(evutil_socket_t fd, short what, void *data)
{
        struct template_messages *m = data;
        event_add(m->readable, NULL);
}

int template_messages_new(struct event_base *base, int fd, struct template_messages **ret,
                          struct error *err)
{
        struct template_messages *m = calloc(1, sizeof(*m));

        if (!m)
                return error_errno(err, ENOMEM, "messages of the template");
        m->fd = -1;
        m->period_ms = clock_ms();
        m->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, m);
        m->pause = evtimer_new(base, on_pause_end, m);
        if (!m->readable || !m->pause || event_add(m->readable, NULL) < 0) {
                template_messages_free(m);
                return error_errno(err, ENOMEM, "messages of the template");
        }
        m->fd = fd;
        *ret = m;
        return 0;
}

struct template_messages *template_messages_free(struct template_messages *m)
{
        if (!m)
                return NULL;
        report_dropped(m);
        if (m->readable)
                event_free(m->readable);
        if (m->pause)
                event_free(m->pause);
        fd_close_many(&m->fd, 1);
        free(m);
        return NULL;
}
