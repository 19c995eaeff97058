/* The RPC socket of one worker: sends first, then receives. */
#include "supervisor/session/channel/channel.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/loop.h"

enum {
        WRITE_AT_ONCE = 1024 * 1024,
        STREAMED_MAX = 4 * 1024 * 1024, /* of a payload that is in a memfd already */
        SMALL_RESERVE =
                65536, /* bytes of `out` for errors, which replace results that do not fit */
        READ_AT_ONCE = 16 * 1024, /* what a session may hold without a reservation, twice */
        READ_LARGE = 256 * 1024,  /* of a large frame, which is not parsed in the loop */
        FRAMES_AT_ONCE = 128,     /* then the loop serves other sessions */
        PAUSE_MS = 5,             /* after too many frames */
        REAP_MS = 20,             /* no event says that a memfd has been read */
};

/* ---- tokens ---- */

static void bucket_init(struct bucket *b, uint64_t rate, uint64_t burst, uint64_t now_us)
{
        *b = (struct bucket){
                .rate = rate, .burst = burst, .tokens = (int64_t)burst, .filled_us = now_us};
}

/* Takes a token. Returns false if there is none. */
static bool bucket_take(struct bucket *b, uint64_t now_us)
{
        uint64_t more = (now_us - b->filled_us) * b->rate / 1000000;

        if (more > 0) {
                uint64_t room = (uint64_t)((int64_t)b->burst - b->tokens);
                b->tokens = room < more ? (int64_t)b->burst : b->tokens + (int64_t)more;
                b->filled_us = now_us;
        }
        if (b->tokens <= 0)
                return false;
        b->tokens--;
        return true;
}

/* Takes more tokens, of which the bucket need not have as many. */
static void bucket_charge(struct bucket *b, uint64_t tokens)
{
        b->tokens -= (int64_t)tokens;
}

/* ---- large results in memfds ---- */

void memfd_queue_init(struct memfd_queue *p)
{
        *p = (struct memfd_queue){};
        TAILQ_INIT(&p->list);
}

void memfd_queue_remove(struct memfd_queue *p, struct memfd_frame *frame)
{
        TAILQ_REMOVE(&p->list, frame, link);
        p->n--;
        p->bytes -= frame->length;
        (void)!ftruncate(frame->fd, 0);
        close(frame->fd);
        free(frame);
}

void memfd_queue_done(struct memfd_queue *p)
{
        while (!TAILQ_EMPTY(&p->list))
                memfd_queue_remove(p, TAILQ_FIRST(&p->list));
}

int memfd_queue_add(struct memfd_queue *p, int fd, size_t length, uint64_t id, uint64_t at)
{
        struct memfd_frame *frame = malloc(sizeof(*frame));

        if (!frame) {
                close(fd);
                return -ENOMEM;
        }
        *frame = (struct memfd_frame){.fd = fd, .id = id, .length = length, .at = at};
        TAILQ_INSERT_TAIL(&p->list, frame, link);
        p->n++;
        p->bytes += length;
        return 0;
}

struct memfd_frame *memfd_queue_unsent(const struct memfd_queue *p)
{
        struct memfd_frame *frame;

        TAILQ_FOREACH (frame, &p->list, link) {
                if (!frame->sent)
                        return frame;
        }
        return NULL;
}

static bool is_read(const struct memfd_frame *frame)
{
        struct stat st;

        return frame->sent && fstat(frame->fd, &st) == 0 && st.st_size == 0;
}

void memfd_queue_reap(struct memfd_queue *p)
{
        struct memfd_frame *frame = TAILQ_FIRST(&p->list);

        while (frame) {
                struct memfd_frame *next = TAILQ_NEXT(frame, link);
                if (is_read(frame))
                        memfd_queue_remove(p, frame);
                frame = next;
        }
}

void memfd_queue_take_back(struct memfd_queue *p, uint64_t id)
{
        struct memfd_frame *frame;

        TAILQ_FOREACH (frame, &p->list, link) {
                if (frame->sent && frame->id == id) {
                        memfd_queue_remove(p, frame);
                        return;
                }
        }
}

void memfd_queue_shift(struct memfd_queue *p, size_t bytes)
{
        struct memfd_frame *frame;

        TAILQ_FOREACH (frame, &p->list, link) {
                if (!frame->sent)
                        frame->at += bytes;
        }
}

/* ---- sending ---- */

static size_t unread(const struct channel *c)
{
        return c->out.length + c->memfds.bytes;
}

static void note(struct channel *c)
{
        charge_set(&c->kept, unread(c));
}

static void reap(struct channel *c)
{
        if (c->memfds.n == 0)
                return;
        memfd_queue_reap(&c->memfds);
        note(c);
}

/* Moves the payload of the memfd frame at the front of `out` into the stream. */
static int unpack(struct channel *c, struct memfd_frame *frame)
{
        struct buffer whole = BUFFER_INIT(CHANNEL_OUT_MAX);
        size_t length = frame->length;
        int r = buffer_reserve(&whole, c->out.length + length);

        if (r < 0)
                return r;
        uint64_t id = frame->id;
        frame_header_encode(
                &(struct frame_header){.length = (uint32_t)length, .type = FRAME_RETURN, .id = id},
                (uint8_t *)buffer_tail(&whole));
        buffer_produced(&whole, FRAME_HEADER_SIZE);
        if (lseek(frame->fd, 0, SEEK_SET) < 0 ||
            fd_read_full(frame->fd, buffer_tail(&whole), length) != (ssize_t)length) {
                buffer_done(&whole);
                return -EIO;
        }
        buffer_produced(&whole, length);
        buffer_append(&whole, buffer_bytes(&c->out) + FRAME_HEADER_SIZE,
                      c->out.length - FRAME_HEADER_SIZE);
        buffer_done(&c->out);
        c->out = whole;
        memfd_queue_remove(&c->memfds, frame);
        memfd_queue_shift(&c->memfds, length);
        return 0;
}

/* Sends a header and its memfd. Returns bytes written or negative errno; 0: the payload was moved
 * into the stream. */
static ssize_t write_memfd(struct channel *c, struct memfd_frame *frame)
{
        int r = fd_send(c->fd, buffer_bytes(&c->out), FRAME_HEADER_SIZE, &frame->fd, 1,
                        MSG_DONTWAIT);

        if (r == 0) {
                frame->sent = true;
                return FRAME_HEADER_SIZE;
        }
        /* ETOOMANYREFS counts the descriptors in flight of all processes with our uid. */
        return r == -EAGAIN || r == -EPIPE || r == -ECONNRESET ? r : unpack(c, frame);
}

/* Returns 1 when all is written, 0 when the socket is full, negative errno. */
static int write_out(struct channel *c)
{
        size_t before = c->out.length;

        while (c->out.length > 0) {
                /* The worker may read as fast as this writes. */
                if (before - c->out.length >= WRITE_AT_ONCE)
                        return 0;
                struct memfd_frame *frame = memfd_queue_unsent(&c->memfds);
                size_t plain = frame ? frame->at - c->written : c->out.length;
                ssize_t n = plain == 0 ? write_memfd(c, frame)
                                       : write(c->fd, buffer_bytes(&c->out), plain);
                if (n < 0 && plain > 0)
                        n = -errno;
                if (n == -EINTR)
                        continue;
                if (n < 0)
                        return n == -EAGAIN ? 0 : (int)n;
                buffer_consume(&c->out, (size_t)n);
                c->written += (size_t)n;
        }
        return 1;
}

/* Drops the output if the worker has closed its end; reading then ends the channel. */
static void flush(struct channel *c)
{
        int r = write_out(c);

        if (r < 0) {
                c->is_cut = true;
                buffer_consume(&c->out, c->out.length);
                memfd_queue_done(&c->memfds);
        }
        bool more = r == 0;
        if (more && !c->writing)
                event_add(c->writable, NULL);
        if (!more && c->writing)
                event_del(c->writable);
        c->writing = more;
        note(c);
}

static void drop_out(struct channel *c)
{
        if (c->writing)
                event_del(c->writable);
        c->writing = false;
        buffer_consume(&c->out, c->out.length);
        memfd_queue_done(&c->memfds);
        note(c);
}

/* Whether a payload of n bytes may be queued. */
static int check_room(struct channel *c, uint8_t type, size_t n)
{
        if (c->fd < 0 || c->ended)
                return -ENOTCONN;
        if (n <= SMALL_RESERVE / 16)
                return 0;
        reap(c);
        if (n > FRAME_PAYLOAD_MAX || unread(c) + n + SMALL_RESERVE > CHANNEL_OUT_MAX)
                return -EMSGSIZE;
        return type == FRAME_RETURN && !charge_fits(&c->kept, n) ? -ENOBUFS : 0;
}

/* r: of the frame that was queued. Answers that arrive together are written together, after the last of them. Frames about the code of a
 * cell are written with the code, so that the worker wakes up once. */
static int queued(struct channel *c, uint8_t type, int r)
{
        c->queued += r >= 0;
        if (r >= 0 && !c->writing && type == FRAME_RETURN)
                event_active(c->writable, EV_WRITE, 0);
        else if (r >= 0 && !c->writing && type != FRAME_INPUT && type != FRAME_SCRIPT &&
                 type != FRAME_NEED)
                flush(c);
        note(c);
        return r;
}

int channel_send(struct channel *c, uint8_t type, uint64_t id, const void *payload, size_t n)
{
        int r = check_room(c, type, n);

        return r < 0 ? r : queued(c, type, frame_append(&c->out, type, id, payload, n));
}

/* Takes fd in any case. */
static int queue_memfd(struct channel *c, uint8_t type, uint64_t id, int fd, size_t length)
{
        int r = buffer_reserve(&c->out, FRAME_HEADER_SIZE);

        if (r < 0) {
                close(fd);
                return r;
        }
        r = memfd_queue_add(&c->memfds, fd, length, id, c->written + c->out.length);
        if (r < 0)
                return r;
        frame_header_encode(&(struct frame_header){.length = (uint32_t)length,
                                                   .type = type,
                                                   .flags = FRAME_IN_MEMFD,
                                                   .id = id},
                            (uint8_t *)buffer_tail(&c->out));
        buffer_produced(&c->out, FRAME_HEADER_SIZE);
        return 0;
}

/* Returns 0, or negative errno: the payload has to go in the stream. */
static int append_memfd(struct channel *c, uint8_t type, uint64_t id, const struct iovec *parts,
                        size_t n, size_t length)
{
        int fd = memfd_frame_make(parts, n);

        return fd < 0 ? fd : queue_memfd(c, type, id, fd, length);
}

/* Copies the payload into the stream. */
static int append_content(struct channel *c, uint8_t type, uint64_t id, int fd, size_t length)
{
        bool may = length <= STREAMED_MAX || c->owner.takes_no_descriptors;
        _cleanup_free_ char *bytes = may ? malloc(length) : NULL;

        if (!bytes)
                return -EMSGSIZE;
        if (pread(fd, bytes, length, 0) != (ssize_t)length)
                return -EIO;
        return frame_append(&c->out, type, id, bytes, length);
}

static bool may_send_memfd(const struct channel *c)
{
        return c->memfds.n < MEMFD_QUEUE_MAX && !c->owner.takes_no_descriptors;
}

int channel_send_memfd(struct channel *c, uint8_t type, uint64_t id, int fd, size_t length)
{
        _cleanup_close_ int memfd = fd;

        int r = check_room(c, type, length);
        if (r < 0)
                return r;
        r = may_send_memfd(c) ? queue_memfd(c, type, id, take_fd(memfd), length)
                              : append_content(c, type, id, memfd, length);
        return queued(c, type, r);
}

int channel_send_fd(struct channel *c, uint8_t type, uint64_t id, int fd)
{
        const struct frame_header header = {.type = type, .id = id};
        uint8_t bytes[FRAME_HEADER_SIZE];

        if (c->fd < 0 || c->ended)
                return -ENOTCONN;
        if (c->out.length > 0 && !c->writing)
                flush(c);
        if (c->out.length > 0)
                return -EAGAIN;
        frame_header_encode(&header, bytes);
        int r = fd_send(c->fd, bytes, sizeof(bytes), &fd, 1, MSG_DONTWAIT);
        if (r < 0)
                return r;
        c->written += sizeof(bytes);
        c->queued++;
        return 0;
}

int channel_send_parts(struct channel *c, uint8_t type, uint64_t id, const struct iovec *parts,
                       size_t n)
{
        size_t length = 0;

        for (size_t i = 0; i < n; i++)
                length += parts[i].iov_len;
        int r = check_room(c, type, length);
        if (r < 0)
                return r;
        bool may = type == FRAME_RETURN && length >= MEMFD_FRAME_MIN && may_send_memfd(c);
        if (!may || append_memfd(c, type, id, parts, n, length) < 0)
                r = frame_append_parts(&c->out, type, id, parts, n);
        return queued(c, type, r);
}

bool channel_was_unread(const struct channel *c, uint64_t n)
{
        return c->is_cut && !c->has_received && c->queued == n;
}

void channel_take_back(struct channel *c, uint64_t id)
{
        if (c->fd < 0)
                return;
        memfd_queue_take_back(&c->memfds, id);
        note(c);
}

/* ---- answers ---- */

/* {"ok": false, "error": {…}} */
static int append_error(struct buffer *b, const struct answer_error *error, yyjson_val *data)
{
        struct json_out out = {.to = b};

        json_out_begin(&out, NULL, '{');
        json_out_bool(&out, "ok", false);
        json_out_begin(&out, "error", '{');
        json_out_text(&out, "kind", error->kind);
        json_out_text(&out, "message", error->message);
        if (error->code != 0)
                json_out_int(&out, "code", error->code);
        if (error->rule)
                json_out_text(&out, "rule", error->rule);
        if (error->why)
                json_out_text(&out, "why", error->why);
        if (data)
                json_out_value(&out, "data", data);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        return out.error;
}

void answer_error(struct channel *channel, uint64_t number, const struct answer_error *error)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX);

        int r = append_error(&b, error, error->data);
        if (r < 0 && error->data) {
                buffer_consume(&b, b.length);
                r = append_error(&b, error, NULL);
        }
        if (r >= 0)
                r = channel_send(channel, FRAME_RETURN, number, buffer_bytes(&b), b.length);
        if (r < 0 && r != -ENOTCONN)
                log_warning("session %s: an answer was dropped: %s", channel->owner.session,
                            strerror(-r));
}

void answer_refuse(struct channel *channel, uint64_t number, const char *why)
{
        answer_error(channel, number, &(struct answer_error){.kind = "ToolError", .message = why});
}

void answer_confirm(struct channel *channel, uint64_t number)
{
        answer_result(channel, number, "{}", 2);
}

static int send_answer(struct channel *channel, uint64_t number, const char *before,
                       const char *text, size_t n)
{
        static char after[] = RETURN_AFTER;
        const struct iovec parts[] = {
                {.iov_base = (void *)(uintptr_t)before, .iov_len = strlen(before)},
                {.iov_base = (void *)(uintptr_t)text, .iov_len = n},
                {.iov_base = after, .iov_len = sizeof(after) - 1},
        };

        return channel_send_parts(channel, FRAME_RETURN, number, parts, ARRAY_SIZE(parts));
}

int answer_result(struct channel *channel, uint64_t number, const char *text, size_t n)
{
        return send_answer(channel, number, RETURN_BEFORE, text, n);
}

int answer_blank(struct channel *channel, uint64_t number, const char *text, size_t n)
{
        return send_answer(channel, number, RETURN_BLANK_BEFORE, text, n);
}

/* ---- receiving ---- */

static void forget_large(struct channel *c)
{
        background_free(c->large.data, c->large.allocated);
        c->large = (struct buffer)BUFFER_INIT(1);
        memory_reservation_drop(&c->reservation);
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
        reap(c);
        if (unread(c) > CHANNEL_OUT_HIGH && c->memfds.n > 0) {
                later(c, REAP_MS);
                return false;
        }
        if (unread(c) > CHANNEL_OUT_HIGH || !c->owner.may_take(c->owner.data)) {
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

static void on_granted(void *data)
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
static bool has_reservation(struct channel *c, enum memory_reservation_pool pool, size_t bytes)
{
        const struct memory_reservation_owner owner = {c->base, on_granted, on_revoked, c};

        /* The worker has ended, and nothing waits for what it wanted. */
        if (c->draining)
                return true;
        if (c->reservation.bytes == 0)
                memory_reservation_ask(&c->reservation, pool, bytes, &owner);
        if (memory_reservation_is_granted(&c->reservation))
                return true;
        stop_reading(c);
        return false;
}

/* Takes the header of a large frame, and what has arrived of its payload. Returns 1, 0: not now, or
 * negative after the channel has ended. */
static int begin_large(struct channel *c, const struct frame_header *header)
{
        if (!has_reservation(c, RESERVATION_FRAMES, header->length))
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
        memory_reservation_complete(&c->reservation);
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
        bool is_large = header.length > RESERVATION_MIN;
        if (!is_large && c->in.length < frame_size(&header)) {
                c->missing = frame_size(&header) - c->in.length;
                if (frame_size(&header) > READ_AT_ONCE && !is_there(c))
                        has_reservation(c, RESERVATION_PARTS, 2 * frame_size(&header));
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
                memory_reservation_drop(&c->reservation);
        }
        return r;
}

/* Gives back what was reserved for the last frame, and the buffer when it is empty: a server can have a thousand sessions that wait. */
static void trim(struct channel *c)
{
        struct buffer rest = BUFFER_INIT(c->in.limit);
        bool is_small = c->in.length > 0 && c->in.allocated <= 2 * READ_AT_ONCE;

        if (c->fd < 0 || is_small || c->in.length > READ_AT_ONCE ||
            buffer_append(&rest, buffer_bytes(&c->in), c->in.length) < 0)
                return;
        buffer_done(&c->in);
        c->in = rest;
}

/* A frame that has begun must be complete in time, unless it is the channel that does not read. */
static void time_frame(struct channel *c, bool is_new)
{
        const struct timeval in = clock_timeval_ms(CHANNEL_FRAME_MS);

        if (c->fd < 0)
                return;
        if (is_new || !c->reading || c->stands_still)
                event_del(c->late);
        if (c->reading && !c->stands_still && !evtimer_pending(c->late, NULL) &&
            channel_is_receiving(c))
                event_add(c->late, &in);
}

void channel_stand_still(struct channel *c, bool stands_still)
{
        c->stands_still = stands_still;
        if (!c->ended)
                time_frame(c, false);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        end_late(data, "after 10 s");
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

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        struct channel *c = data;

        flush(c);
        if (unread(c) <= CHANNEL_OUT_HIGH)
                channel_resume(c);
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
        event_del(c->late);
        event_del(c->resume);
        buffer_consume(&c->in, c->in.length);
        trim(c);
        c->missing = 0;
        c->draining = false;
        drop_out(c);
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
                .in = BUFFER_INIT(RESERVATION_MIN + FRAME_HEADER_SIZE + READ_AT_ONCE),
                .large = BUFFER_INIT(1),
                .out = BUFFER_INIT(CHANNEL_OUT_MAX),
        };
        memfd_queue_init(&c->memfds);
        bucket_init(&c->bucket, CHANNEL_RATE, CHANNEL_BURST, clock_us());
        c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
        c->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
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

void channel_close(struct channel *c)
{
        if (c->fd < 0)
                return;
        loop_event_free(&c->readable);
        loop_event_free(&c->writable);
        loop_event_free(&c->resume);
        loop_event_free(&c->late);
        c->job = frame_job_cancel(c->job);
        forget_large(c);
        buffer_done(&c->in);
        buffer_done(&c->out);
        memfd_queue_done(&c->memfds);
        charge_done(&c->kept);
        close(c->fd);
        c->fd = -1;
}
