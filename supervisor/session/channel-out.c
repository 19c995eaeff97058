/* The RPC socket of one worker: what it is sent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/session/channel-internal.h"

enum {
        WRITE_AT_ONCE = 1024 * 1024,
        STREAMED_MAX = 4 * 1024 * 1024, /* of a payload that is in a memfd already */
        SMALL_RESERVE =
                65536, /* bytes of `out` for errors, which replace results that do not fit */
};

size_t channel_unread(const struct channel *c)
{
        return c->out.length + c->memfds.bytes;
}

static void note(struct channel *c)
{
        charge_set(&c->kept, channel_unread(c));
}

void channel_reap(struct channel *c)
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

void channel_drop_out(struct channel *c)
{
        if (c->writing)
                event_del(c->writable);
        c->writing = false;
        buffer_consume(&c->out, c->out.length);
        memfd_queue_done(&c->memfds);
        note(c);
}

void channel_on_writable(evutil_socket_t fd, short what, void *data)
{
        struct channel *c = data;

        flush(c);
        if (channel_unread(c) <= CHANNEL_OUT_HIGH)
                channel_resume(c);
}

/* Whether a payload of n bytes may be queued. */
static int check_room(struct channel *c, uint8_t type, size_t n)
{
        if (c->fd < 0 || c->ended)
                return -ENOTCONN;
        if (n <= SMALL_RESERVE / 16)
                return 0;
        channel_reap(c);
        if (n > FRAME_PAYLOAD_MAX || channel_unread(c) + n + SMALL_RESERVE > CHANNEL_OUT_MAX)
                return -EMSGSIZE;
        return type == FRAME_RETURN && !charge_fits(&c->kept, n) ? -ENOBUFS : 0;
}

/* r: of the frame that was queued. */
static int queued(struct channel *c, int r)
{
        c->queued += r >= 0;
        if (r >= 0 && !c->writing)
                flush(c);
        note(c);
        return r;
}

int channel_send(struct channel *c, uint8_t type, uint64_t id, const void *payload, size_t n)
{
        int r = check_room(c, type, n);

        return r < 0 ? r : queued(c, frame_append(&c->out, type, id, payload, n));
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
        _cleanup_free_ char *bytes = length <= STREAMED_MAX ? malloc(length) : NULL;

        if (!bytes)
                return -EMSGSIZE;
        if (pread(fd, bytes, length, 0) != (ssize_t)length)
                return -EIO;
        return frame_append(&c->out, type, id, bytes, length);
}

int channel_send_memfd(struct channel *c, uint8_t type, uint64_t id, int fd, size_t length)
{
        _cleanup_close_ int memfd = fd;

        int r = check_room(c, type, length);
        if (r < 0)
                return r;
        r = c->memfds.n < MEMFD_QUEUE_MAX ? queue_memfd(c, type, id, take_fd(memfd), length)
                                          : append_content(c, type, id, memfd, length);
        return queued(c, r);
}

int channel_send_fd(struct channel *c, uint8_t type, uint64_t id, int fd)
{
        const struct frame_header header = {.type = type, .id = id};
        uint8_t bytes[FRAME_HEADER_SIZE];

        if (c->fd < 0 || c->ended)
                return -ENOTCONN;
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
        bool may = type == FRAME_RETURN && length >= MEMFD_FRAME_MIN &&
                   c->memfds.n < MEMFD_QUEUE_MAX;
        if (!may || append_memfd(c, type, id, parts, n, length) < 0)
                r = frame_append_parts(&c->out, type, id, parts, n);
        return queued(c, r);
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
