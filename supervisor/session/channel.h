/*
 * The broker's end of a worker's RPC socket: frames in, frames out, both limited.
 *
 * The channel uses read() only, so the kernel drops descriptors that the worker attaches. While the
 * worker does not read its answers, too many calls are pending or frames arrive too fast, the
 * channel does not read; the worker blocks once the socket is full.
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
        /* Bytes that the worker has not read, in the stream and in memfds: the most there may be,
         * and how many stop the channel from taking frames. */
        CHANNEL_OUT_MAX = 2 * (FRAME_PAYLOAD_MAX + FRAME_HEADER_SIZE),
        CHANNEL_OUT_HIGH = FRAME_PAYLOAD_MAX,
        CHANNEL_RATE = 50000, /* frames a second */
        CHANNEL_BURST = 20000,
};

struct channel_owner {
        void *data;
        /* Handles a frame. The payload is valid until the call returns or closes the channel. A
         * negative result ends the channel: closed() follows with the error. */
        int (*frame)(void *data, const struct frame_header *header, const char *payload,
                     struct error *err);
        /* Whether another frame may be taken now; channel_resume() when that changes. */
        bool (*may_take)(void *data);
        /* The other end is closed (error not set) or broke the protocol (error says how). Called
         * once. */
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
void channel_close(struct channel *c); /* may be called from the owner's functions, and twice */

/* Queues a frame and writes as much as the socket takes. Returns 0, -EMSGSIZE (too long, nothing
 * was queued), -ENOMEM or -ENOTCONN. */
int channel_send(struct channel *c, uint8_t type, uint64_t id, const void *payload, size_t n);

/* The same for a payload in parts. A large RETURN is sent in a memfd. */
int channel_send_parts(struct channel *c, uint8_t type, uint64_t id, const struct iovec *parts,
                       size_t n);

/* The worker did not get the memfd of the frame with this id: frees its memory. A worker that has
 * it mapped would get SIGBUS. */
void channel_take_back(struct channel *c, uint64_t id);

/* Takes frames again. */
void channel_resume(struct channel *c);

/* Takes all frames that are in the socket, after the worker has ended. */
void channel_drain(struct channel *c);
