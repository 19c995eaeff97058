/* The RPC socket of one worker: what it sends. */
#include "supervisor/session/channel.h"

#include <assert.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/session/channel-internal.h"

enum {
        READ_AT_ONCE = 16 * 1024, /* what a session may hold without a claim, twice */
        READ_LARGE = 256 * 1024,  /* of a large frame, which is not parsed in the loop */
        FRAMES_AT_ONCE = 128,     /* then the loop serves other sessions */
        PAUSE_MS = 5,             /* after too many frames */
        REAP_MS = 20,             /* no event says that a memfd has been read */
};

static void forget_large(struct channel *c)
{
        background_free(c->large.data, c->large.allocated);
        c->large = (struct buffer)BUFFER_INIT(1);
        claim_drop(&c->claim);
        c->is_large = false;
}

static void end(struct channel *c, const struct error *error)
{
        if (c->ended || c->fd < 0)
                return;
        c->ended = true;
        c->reading = false;
        event_del(c->readable);
        event_del(c->resume);
        event_del(c->late);
        if (!c->job)
                forget_large(c);
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

/* Whether the next frame may be taken; else reading stops until channel_resume() or a timer. */
static bool may_take(struct channel *c)
{
        channel_reap(c);
        if (channel_unread(c) > CHANNEL_OUT_HIGH && c->memfds.n > 0) {
                later(c, REAP_MS);
                return false;
        }
        if (channel_unread(c) > CHANNEL_OUT_HIGH || !c->owner.may_take(c->owner.data)) {
                stop_reading(c);
                return false;
        }
        if (!bucket_take(&c->bucket, clock_us())) {
                later(c, PAUSE_MS);
                return false;
        }
        return true;
}

/* Passes a frame to its handler. Returns 1, or negative after the channel has ended. */
static int handle(struct channel *c, const struct frame_header *header, struct frame_body *body)
{
        struct error err = {};

        int r = c->owner.frame(c->owner.data, header, body, &err);
        size_t values = body->values;
        frame_body_done(body);
        if (c->fd < 0 || c->ended)
                return -ECANCELED;
        if (r < 0) {
                end(c, &err);
                return r;
        }
        bucket_charge(&c->bucket,
                      header->length / CHANNEL_TOKEN_BYTES + values / CHANNEL_TOKEN_VALUES);
        return 1;
}

/* The frame at the front of `in`: returns 1 with its header, also if the payload has not arrived, 0,
 * or negative errno. */
static int peek(const struct channel *c, struct frame_header *header, struct error *err)
{
        if (c->in.length < FRAME_HEADER_SIZE)
                return 0;
        const uint8_t *bytes = (const uint8_t *)buffer_bytes(&c->in);
        /* The type is the fifth byte. */
        int r = frame_header_decode(bytes, frame_worker_max(bytes[4]), header, err);
        return r < 0 ? r : 1;
}

static void on_claim(void *data)
{
        channel_resume(data);
}

static void end_late(struct channel *c, const char *why)
{
        struct frame_header header = c->large_header;
        struct error err = {};
        bool known = c->is_large || peek(c, &header, NULL) > 0;

        error_set(&err, ETIMEDOUT, "%s frame was not complete %s",
                  known ? frame_type_name(header.type) : "a", why);
        end(c, &err);
}

static void on_revoked(void *data)
{
        end_late(data, "in time: other sessions wait for its memory");
}

/* Whether all that is missing of the frame is in the socket already: it is read at once then. */
static bool is_there(const struct channel *c)
{
        int n = 0;

        return ioctl(c->fd, FIONREAD, &n) == 0 && n >= 0 && (size_t)n >= c->missing;
}

/* Returns whether there is memory for what arrives; else the channel does not read until there is. */
static bool has_claim(struct channel *c, enum claim_pool pool, size_t bytes)
{
        const struct claim_owner owner = {c->base, on_claim, on_revoked, c};

        /* The worker has ended, and nothing waits for what it wanted. */
        if (c->draining)
                return true;
        if (c->claim.bytes == 0)
                claim_ask(&c->claim, pool, bytes, &owner);
        if (claim_is_granted(&c->claim))
                return true;
        stop_reading(c);
        return false;
}

/* Takes the header of a large frame, and what has arrived of its payload. Returns 1, 0: not now, or
 * negative after the channel has ended. */
static int begin_large(struct channel *c, const struct frame_header *header)
{
        if (!has_claim(c, CLAIM_FRAMES, header->length))
                return 0;
        buffer_init(&c->large, header->length);
        if (buffer_reserve(&c->large, header->length) < 0) {
                struct error err = {};
                error_set(&err, ENOMEM, "%s frame of %u bytes", frame_type_name(header->type),
                          header->length);
                end(c, &err);
                return -ENOMEM;
        }
        buffer_consume(&c->in, FRAME_HEADER_SIZE);
        size_t n = c->in.length < header->length ? c->in.length : header->length;
        buffer_append(&c->large, buffer_bytes(&c->in), n);
        buffer_consume(&c->in, n);
        c->large_header = *header;
        c->is_large = true;
        return 1;
}

static void on_parsed(void *data, struct frame_body *body, int r, struct error *err)
{
        struct channel *c = data;
        const struct frame_header header = c->large_header;

        c->job = NULL;
        forget_large(c);
        if (r < 0)
                end(c, err);
        else if (handle(c, &header, body) > 0)
                channel_resume(c);
}

/* The payload of a large frame, as far as it was received. Returns 1 if it is dropped, 0: it is not
 * complete or is parsed now, or negative after the channel has ended. */
static int take_large(struct channel *c)
{
        if (c->job || c->large.length < c->large_header.length)
                return 0;
        if (c->draining) {
                forget_large(c);
                return 1;
        }
        stop_reading(c);
        claim_complete(&c->claim);
        c->job = frame_job_start(c->base, &c->large_header, &c->large, on_parsed, c);
        return 0;
}

/* Takes one frame. Returns 1, 0 if there was none, or negative after the channel has ended. */
static int take_frame(struct channel *c)
{
        struct error err = {};
        struct frame_header header;

        if (c->is_large)
                return take_large(c);
        int r = peek(c, &header, &err);
        if (r < 0)
                end(c, &err);
        if (r <= 0)
                return r;
        bool is_large = header.length > CLAIM_MIN;
        if (!is_large && c->in.length < frame_size(&header)) {
                c->missing = frame_size(&header) - c->in.length;
                if (frame_size(&header) > READ_AT_ONCE && !is_there(c))
                        has_claim(c, CLAIM_PARTS, 2 * frame_size(&header));
                return 0;
        }
        if (!may_take(c))
                return 0;
        if (is_large)
                return begin_large(c, &header);
        struct frame_body body = {.bytes = buffer_bytes(&c->in) + FRAME_HEADER_SIZE,
                                  .n = header.length};
        r = handle(c, &header, &body);
        if (r > 0) {
                buffer_consume(&c->in, frame_size(&header));
                claim_drop(&c->claim);
        }
        return r;
}

/* Gives back what was claimed for the last frame. */
static void trim(struct channel *c)
{
        struct buffer rest = BUFFER_INIT(c->in.limit);

        if (c->fd < 0 || c->in.allocated <= 2 * READ_AT_ONCE || c->in.length > READ_AT_ONCE ||
            buffer_append(&rest, buffer_bytes(&c->in), c->in.length) < 0)
                return;
        buffer_done(&c->in);
        c->in = rest;
}

static void stop_timing(struct channel *c)
{
        if (c->is_timed)
                event_del(c->late);
        c->is_timed = false;
}

/* A frame that has begun must be complete in time, unless it is the channel that does not read. */
static void time_frame(struct channel *c, bool is_new)
{
        const struct timeval in = clock_timeval_ms(CHANNEL_FRAME_MS);

        if (c->fd < 0)
                return;
        if (is_new || !c->reading)
                stop_timing(c);
        if (c->reading && !c->is_timed && channel_is_receiving(c))
                c->is_timed = event_add(c->late, &in) == 0;
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        struct channel *c = data;

        c->is_timed = false;
        end_late(c, "after 10 s");
}
static_assert(CHANNEL_FRAME_MS == 10000, "on_late() says so");

static void take_frames(struct channel *c)
{
        int r = 1, n = 0;

        c->missing = 0;
        while (n < FRAMES_AT_ONCE && (r = take_frame(c)) > 0)
                n++;
        if (r > 0)
                later(c, 0);
        trim(c);
        time_frame(c, n > 0);
}

/* Reads once. Returns whether frames may have come. */
static bool read_some(struct channel *c)
{
        size_t missing = c->is_large ? c->large_header.length - c->large.length : 0;
        size_t most = c->missing > READ_AT_ONCE ? c->missing : READ_AT_ONCE;
        ssize_t n = missing > 0 ? buffer_read_fd(&c->large, c->fd,
                                                 missing < READ_LARGE ? missing : READ_LARGE)
                                : buffer_read_fd(&c->in, c->fd, most);

        if (n > 0) {
                c->has_received = true;
                return true;
        }
        /* unix(7): the peer closed its end with bytes unread in its queue. They are the last ones
         * that were sent. */
        if (n == -ECONNRESET)
                c->is_cut = true;
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
        if (c->fd < 0 || c->ended || c->reading || c->job)
                return;
        struct timeval now = {};
        event_add(c->resume, &now);
}

/* A large frame is of no use any more: it is a call, or a display that is lost. */
void channel_drain(struct channel *c)
{
        c->draining = true;
        if (c->job) {
                c->job = frame_job_cancel(c->job);
                forget_large(c);
        }
        while (c->fd >= 0 && !c->ended && take_frame(c) > 0)
                ;
        while (c->fd >= 0 && !c->ended && read_some(c)) {
                while (c->fd >= 0 && !c->ended && take_frame(c) > 0)
                        ;
        }
}

int channel_reset(struct channel *c)
{
        if (c->fd < 0 || c->ended || c->is_cut)
                return -ENOTCONN;
        c->job = frame_job_cancel(c->job);
        forget_large(c);
        stop_timing(c);
        event_del(c->resume);
        buffer_consume(&c->in, c->in.length);
        trim(c);
        c->missing = 0;
        c->draining = false;
        channel_drop_out(c);
        start_reading(c);
        return 0;
}

int channel_open(struct channel *c, struct event_base *base, int fd,
                 const struct channel_owner *owner, struct error *err)
{
        *c = (struct channel){
                .fd = fd,
                .owner = *owner,
                .base = base,
                .in = BUFFER_INIT(CLAIM_MIN + FRAME_HEADER_SIZE + READ_AT_ONCE),
                .large = BUFFER_INIT(1),
                .out = BUFFER_INIT(CHANNEL_OUT_MAX),
        };
        memfd_queue_init(&c->memfds);
        bucket_init(&c->bucket, CHANNEL_RATE, CHANNEL_BURST, clock_us());
        c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
        c->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, channel_on_writable, c);
        c->resume = evtimer_new(base, on_resume, c);
        c->late = evtimer_new(base, on_late, c);
        int r = fd_set_nonblocking(fd, 1);
        if (r < 0 || !c->readable || !c->writable || !c->resume || !c->late) {
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
        free_event(&c->late);
        c->job = frame_job_cancel(c->job);
        forget_large(c);
        buffer_done(&c->in);
        buffer_done(&c->out);
        memfd_queue_done(&c->memfds);
        charge_done(&c->kept);
        close(c->fd);
        c->fd = -1;
}
