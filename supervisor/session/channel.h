/*
 * The broker's end of a worker's RPC socket: frames in, frames out, bounded both ways.
 *
 * Plain read() only: descriptors that the worker attaches are dropped by the kernel. A channel that
 * may not read (the worker does not take its answers, too many calls are in flight, frames come too
 * fast) leaves the bytes in the socket, which stops the worker.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "rpc/frame.h"
#include "supervisor/session/bucket.h"
#include "supervisor/session/memfd-queue.h"

enum {
        /* What the worker has not read, in the stream and in memfds; above the second no frame is
         * taken. */
        CHANNEL_OUT_MAX = 2 * (FRAME_PAYLOAD_MAX + FRAME_HEADER_SIZE),
        CHANNEL_OUT_HIGH = FRAME_PAYLOAD_MAX,
        CHANNEL_RATE = 50000, /* frames a second */
        CHANNEL_BURST = 20000,
};

struct channel_owner {
        void *data;
        /* A frame; the payload is valid until the call returns or closes the channel. Negative: the
         * channel is broken, closed() follows with the error. */
        int (*frame)(void *data, const struct frame_header *header, const char *payload,
                     struct error *err);
        /* Whether another frame may be taken now; channel_resume() when that changes. */
        bool (*may_take)(void *data);
        /* The other end is gone (error not set) or broke the protocol (error tells). Called once.
         */
        void (*closed)(void *data, const struct error *error);
};

struct channel {
        int fd; /* -1: closed */
        struct channel_owner owner;
        struct event *readable, *writable, *resume;
        struct buffer in, out;
        uint64_t written; /* bytes that have left `out` */
        struct memfd_queue memfds;
        struct bucket bucket;
        bool reading, writing, ended;
};

/* Takes fd in any case. */
int channel_open(struct channel *c, struct event_base *base, int fd,
                 const struct channel_owner *owner, struct error *err);
void channel_close(struct channel *c); /* also from inside owner's functions; idempotent */

/* Queues a frame and writes what the socket takes. Returns 0, -EMSGSIZE (it does not fit; nothing
 * was queued), -ENOMEM, -ENOTCONN. */
int channel_send(struct channel *c, uint8_t type, uint64_t id, const void *payload, size_t n);

/* The same for a payload in parts; one that is large goes in a memfd, for the types that may. */
int channel_send_parts(struct channel *c, uint8_t type, uint64_t id, const struct iovec *parts,
                       size_t n);

/* What was sent in a memfd with this id was lost on the way. A worker that reads one would be
 * killed by this (SIGBUS). */
void channel_take_back(struct channel *c, uint64_t id);

/* Goes on taking frames. */
void channel_resume(struct channel *c);

/* Takes what has arrived until the socket is empty, for the last words of a worker that is gone. */
void channel_drain(struct channel *c);
