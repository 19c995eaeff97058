/* The RPC socket of one worker. */
#include "supervisor/session/channel.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "supervisor/session/clock.h"

enum {
        READ_AT_ONCE = 256 * 1024,
        FRAMES_AT_ONCE = 128,  /* then other sessions have their turn */
        PAUSE_MS = 5,          /* after too many frames */
        SMALL_RESERVE = 65536, /* of the way out, for errors in place of results that do not fit */
};

static void end(struct channel *c, const struct error *error)
{
        if (c->ended || c->fd < 0)
                return;
        c->ended = true;
        c->reading = false;
        event_del(c->readable);
        event_del(c->resume);
        c->owner.closed(c->owner.data, error);
}

static void stop_reading(struct channel *c)
{
        if (c->reading)
                event_del(c->readable);
        c->reading = false;
}

static void start_reading(struct channel *c)
{
        if (!c->reading && !c->ended)
                event_add(c->readable, NULL);
        c->reading = !c->ended;
}

static void later(struct channel *c, uint64_t ms)
{
        struct timeval t = clock_timeval_ms(ms);

        stop_reading(c);
        event_add(c->resume, &t);
}

/* Whether the next frame may be taken; else reading stops until something resumes it. */
static bool may_take(struct channel *c)
{
        if (c->out.length > CHANNEL_OUT_HIGH || !c->owner.may_take(c->owner.data)) {
                stop_reading(c);
                return false;
        }
        if (!bucket_take(&c->bucket, clock_us())) {
                later(c, PAUSE_MS);
                return false;
        }
        return true;
}

/* Takes one frame. Returns 1 when there was one, 0 when not, negative after an end. */
static int take_frame(struct channel *c)
{
        struct error err = {};
        struct frame_header header;
        const char *payload;

        int r = frame_peek(&c->in, FRAME_PAYLOAD_MAX, &header, &payload, &err);
        if (r == 0)
                return 0;
        if (r > 0) {
                if (!may_take(c))
                        return 0;
                r = c->owner.frame(c->owner.data, &header, payload, &err);
                if (c->fd < 0 || c->ended)
                        return -ECANCELED;
        }
        if (r < 0) {
                end(c, &err);
                return r;
        }
        buffer_consume(&c->in, FRAME_HEADER_SIZE + (size_t)header.length);
        return 1;
}

static void take_frames(struct channel *c)
{
        int r = 1;

        for (int i = 0; i < FRAMES_AT_ONCE && r > 0; i++)
                r = take_frame(c);
        if (r > 0)
                later(c, 0);
}

/* Reads once. Returns whether frames may have come. */
static bool read_some(struct channel *c)
{
        ssize_t n = buffer_read_fd(&c->in, c->fd, READ_AT_ONCE);

        if (n > 0)
                return true;
        if (n == 0 || (n != -EAGAIN && n != -EMSGSIZE))
                end(c, NULL);
        return false;
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct channel *c = data;

        if (read_some(c))
                take_frames(c);
}

static void on_resume(evutil_socket_t fd, short what, void *data)
{
        struct channel *c = data;

        start_reading(c);
        take_frames(c);
}

void channel_resume(struct channel *c)
{
        if (c->fd < 0 || c->ended || c->reading)
                return;
        struct timeval now = {};
        event_add(c->resume, &now);
}

void channel_drain(struct channel *c)
{
        while (c->fd >= 0 && !c->ended && read_some(c)) {
                while (c->fd >= 0 && !c->ended && take_frame(c) > 0)
                        ;
        }
}

/* A worker that has closed its end is noticed by reading; what it no longer takes is dropped. */
static void flush(struct channel *c)
{
        int r = buffer_write_fd(&c->out, c->fd);

        if (r < 0)
                buffer_consume(&c->out, c->out.length);
        bool more = r == 0;
        if (more && !c->writing)
                event_add(c->writable, NULL);
        if (!more && c->writing)
                event_del(c->writable);
        c->writing = more;
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        struct channel *c = data;

        flush(c);
        if (c->out.length <= CHANNEL_OUT_HIGH)
                channel_resume(c);
}

int channel_send(struct channel *c, uint8_t type, uint64_t id, const void *payload, size_t n)
{
        if (c->fd < 0 || c->ended)
                return -ENOTCONN;
        if (n > SMALL_RESERVE / 16 && c->out.length + n + SMALL_RESERVE > CHANNEL_OUT_MAX)
                return -EMSGSIZE;
        int r = frame_append(&c->out, type, id, payload, n);
        if (r >= 0 && !c->writing)
                flush(c);
        return r;
}

int channel_open(struct channel *c, struct event_base *base, int fd,
                 const struct channel_owner *owner, struct error *err)
{
        *c = (struct channel){
                .fd = fd,
                .owner = *owner,
                .in = BUFFER_INIT(FRAME_PAYLOAD_MAX + FRAME_HEADER_SIZE + READ_AT_ONCE),
                .out = BUFFER_INIT(CHANNEL_OUT_MAX),
        };
        bucket_init(&c->bucket, CHANNEL_RATE, CHANNEL_BURST, clock_us());
        c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
        c->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
        c->resume = evtimer_new(base, on_resume, c);
        int r = fd_set_nonblocking(fd, 1);
        if (r < 0 || !c->readable || !c->writable || !c->resume) {
                channel_close(c);
                return error_errno(err, r < 0 ? -r : ENOMEM, "worker's channel");
        }
        start_reading(c);
        return 0;
}

static void free_event(struct event **event)
{
        if (*event)
                event_free(*event);
        *event = NULL;
}

void channel_close(struct channel *c)
{
        if (c->fd < 0)
                return;
        free_event(&c->readable);
        free_event(&c->writable);
        free_event(&c->resume);
        buffer_done(&c->in);
        buffer_done(&c->out);
        close(c->fd);
        c->fd = -1;
}
