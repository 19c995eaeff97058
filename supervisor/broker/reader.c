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

static void pass_lines(struct reader *source)
{
        const char *line;
        size_t n;
        int r;

        while (!source->paused && (r = lines_next(&source->lines, &line, &n)) != 0) {
                if (r == 1)
                        source->owner.line(source->owner.data, line, n);
                else
                        source->owner.too_long(source->owner.data, source->lines.most);
        }
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct reader *source = data;
        const char *line;
        size_t length;

        pass_lines(source);
        if (source->paused || (source->polls && !(what & EV_READ)))
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
        if (!source->polls && !source->paused)
                arm(source);
}

void reader_pause(struct reader *source, bool paused)
{
        if (source->ended || source->paused == paused)
                return;
        source->paused = paused;
        if (paused) {
                event_del(source->readable);
                return;
        }
        arm(source);
        /* The descriptor is not readable for lines that were read already. */
        event_active(source->readable, EV_TIMEOUT, 0);
}

int reader_open(struct reader *source, struct event_base *base, int fd, size_t line_max,
                const struct reader_owner *owner, struct error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "descriptor %d", fd);
        *source = (struct reader){
                .fd = fd,
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
        lines_done(&source->lines);
}
