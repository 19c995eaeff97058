/* Lines of standard input. */
#include "supervisor/broker/reader.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static void arm(struct reader *source)
{
        struct timeval now = {};

        event_add(source->readable, source->polls ? NULL : &now);
}

/* Paused by the owner, or by a long line that is parsed. */
static bool is_held(const struct reader *source)
{
        return source->paused || source->long_line;
}

/* Reads on, after it was held. */
static void go_on(struct reader *source)
{
        if (source->ended || is_held(source))
                return;
        arm(source);
        /* The descriptor is not readable for lines that were read already. */
        event_active(source->readable, EV_TIMEOUT, 0);
}

static void on_parsed(void *data, struct large_line *line)
{
        struct reader *source = data;

        source->long_line = NULL;
        go_on(source);
        /* May end the reader. */
        source->owner.parsed(source->owner.data, line);
}

/* Returns false if there is no memory for it. */
static bool parse_long_line(struct reader *source, size_t n)
{
        struct buffer text = BUFFER_INIT(source->lines.most);

        if (lines_take(&source->lines, n, &text) >= 0)
                source->long_line = large_line_start(source->base, &text, false, on_parsed, source);
        return source->long_line != NULL;
}

static void pass_lines(struct reader *source)
{
        const char *line;
        size_t n;
        int r;

        while (!is_held(source) && (r = lines_next(&source->lines, &line, &n)) != 0) {
                bool is_long = n > RESERVATION_MIN && source->owner.parsed;
                if (r == 1 && is_long && parse_long_line(source, n))
                        continue;
                if (r == 1 && !is_long)
                        source->owner.line(source->owner.data, line, n);
                else
                        source->owner.too_long(source->owner.data, source->lines.most);
        }
        if (is_held(source))
                event_del(source->readable);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct reader *source = data;
        const char *line;
        size_t length;

        pass_lines(source);
        if (is_held(source) || (source->polls && !(what & EV_READ)))
                return;
        ssize_t n = lines_read(&source->lines, source->fd);
        if (n > 0) {
                pass_lines(source);
        } else if (n != -EAGAIN && n != -EINTR) {
                source->ended = true;
                event_del(source->readable);
                if (n == 0 && lines_rest(&source->lines, &line, &length) == 1)
                        source->owner.line(source->owner.data, line, length);
                source->owner.ended(source->owner.data);
                return;
        }
        if (!source->polls && !is_held(source))
                arm(source);
}

void reader_pause(struct reader *source, bool paused)
{
        if (source->ended || source->paused == paused)
                return;
        source->paused = paused;
        if (paused)
                event_del(source->readable);
        else
                go_on(source);
}

int reader_open(struct reader *source, struct event_base *base, int fd, size_t line_max,
                const struct reader_owner *owner, struct error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "descriptor %d", fd);
        *source = (struct reader){
                .fd = fd,
                .base = base,
                .polls = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd),
                .owner = *owner,
        };
        lines_init(&source->lines, line_max);
        source->readable = event_new(base, source->polls ? fd : -1,
                                     source->polls ? EV_READ | EV_PERSIST : 0, on_readable, source);
        if (!source->readable)
                return error_errno(err, ENOMEM, "descriptor %d", fd);
        arm(source);
        return 0;
}

void reader_close(struct reader *source)
{
        if (source->readable)
                event_free(source->readable);
        source->readable = NULL;
        source->long_line = large_line_cancel(source->long_line);
        lines_done(&source->lines);
}
