/*
 * The broker's end of a worker's RPC socket: frames in, frames out, both limited.
 *
 * The channel uses read() only, so the kernel drops descriptors that the worker attaches. While the
 * worker does not read its answers, too many calls are pending or frames arrive too fast, the
 * channel does not read; the worker blocks once the socket is full.
 *
 * A frame above RESERVATION_MIN bytes is received into memory that was reserved (rpc/memory-reservation.h) and parsed in
 * the background; no frame is taken meanwhile. Of a smaller one 32 KiB are held without a reservation. A frame
 * must be complete CHANNEL_FRAME_MS after its first byte.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "rpc/frame.h"
#include "rpc/memfd-frame.h"
#include "rpc/memory-account.h"
#include "rpc/memory-reservation.h"
#include "supervisor/session/channel/frame-body.h"

enum {
        /* Bytes that the worker has not read, in the stream and in memfds: the most there may be,
         * and how many stop the channel from taking frames. */
        CHANNEL_OUT_MAX = 2 * (FRAME_PAYLOAD_MAX + FRAME_HEADER_SIZE),
        CHANNEL_OUT_HIGH = FRAME_PAYLOAD_MAX,
        /* Tokens: a frame takes one, and others for its bytes and values. */
        CHANNEL_RATE = 50000, /* a second */
        CHANNEL_BURST = 20000,
        CHANNEL_TOKEN_BYTES = 1024,
        CHANNEL_TOKEN_VALUES = 16,

        CHANNEL_FRAME_MS = 10000,
};

/*
 * Large results on their way into a sandbox, each in a memfd (rpc/frame.h, FRAME_IN_MEMFD).
 *
 * Theory of operation. The pages of a memfd are charged to the broker as long as any process has it
 * open or mapped, so code in the sandbox could hold memory beyond its limit. Therefore the memfd is
 * sealed against writing and growing, but not against truncation: a worker that has read it
 * truncates it to 0, which frees the pages even while another process has it open. A memfd that is not truncated counts
 * as unread, and the broker truncates what is left at the end of the session. Sizes come from
 * fstat().
 */
enum {
        MEMFD_QUEUE_MAX = 8, /* of a session at a time: each takes a descriptor of the broker */
};

struct memfd_frame {
        TAILQ_ENTRY(memfd_frame) link;
        int fd;
        uint64_t id;   /* of the frame */
        size_t length; /* as it was sent */
        uint64_t at;   /* where in the stream its header begins */
        bool sent;
};

struct memfd_queue {
        TAILQ_HEAD(, memfd_frame) list; /* in the stream's order */
        size_t n, bytes;                /* of those that are not truncated */
};

void memfd_queue_init(struct memfd_queue *p);
/* Frees the memory of all of them, including those that the worker still holds. */
void memfd_queue_done(struct memfd_queue *p);

/* Takes fd in any case. Returns 0 or -ENOMEM. */
int memfd_queue_add(struct memfd_queue *p, int fd, size_t length, uint64_t id, uint64_t at);
/* The first that is not sent yet; NULL when there is none. */
struct memfd_frame *memfd_queue_unsent(const struct memfd_queue *p);
/* Removes those that the worker has read. */
void memfd_queue_reap(struct memfd_queue *p);
/* Frees the memory of the one that was sent with this id, if there is one. */
void memfd_queue_take_back(struct memfd_queue *p, uint64_t id);
/* Removes a frame whose payload goes in the stream; the unsent ones after it move by these bytes.
 */
void memfd_queue_remove(struct memfd_queue *p, struct memfd_frame *frame);
void memfd_queue_shift(struct memfd_queue *p, size_t bytes);

struct channel_owner {
        void *data;
        const char *session; /* its name, for the log */
        /* Handles a frame. The body is valid until the call returns. A negative result ends the
         * channel: closed() follows with the error. */
        int (*frame)(void *data, const struct frame_header *header, struct frame_body *body,
                     struct error *err);
        /* Whether another frame may be taken now; channel_resume() when that changes. */
        bool (*may_take)(void *data);
        /* The other end is closed (error not set) or broke the protocol (error says how). Called
         * once. */
        void (*closed)(void *data, const struct error *error);
        bool takes_no_descriptors; /* of the worker: every payload goes in the stream */
};

/* A token bucket. It limits the frames of a session, so that no session keeps the event loop busy. A
 * frame takes a token before its cost is known, which is charged afterwards: the bucket may then owe
 * tokens. */
struct bucket {
        uint64_t rate;  /* tokens a second */
        uint64_t burst; /* most tokens that are saved */
        int64_t tokens;
        uint64_t filled_us; /* when tokens were last added */
};

struct channel {
        int fd; /* -1: closed */
        struct channel_owner owner;
        struct event_base *base;
        struct event *readable, *writable, *resume, *late;
        struct buffer in, out;
        struct buffer large; /* the payload of a large frame, as far as it was received */
        struct frame_header large_header;
        struct memory_reservation
                reservation; /* for it, or for what has arrived of a smaller one */
        size_t missing;      /* of the frame that has begun; 0: none, or not known */
        struct charge kept;  /* bytes that the worker has not read; the owner opens it */
        struct frame_job *job;
        uint64_t written;  /* bytes that have left `out` */
        uint64_t queued;   /* frames that were queued */
        bool has_received; /* the worker has sent something */
        bool is_cut;       /* the worker has closed its end before it had read all */
        struct memfd_queue memfds;
        struct bucket bucket;
        bool reading, writing, ended, is_large, draining, stands_still;
};

/* Whether a frame has begun to arrive or waits to be taken. */
static inline bool channel_is_receiving(const struct channel *c)
{
        return c->fd >= 0 && (c->in.length > 0 || c->is_large);
}

/* Takes fd in any case. */
int channel_open(struct channel *c, struct event_base *base, int fd,
                 const struct channel_owner *owner, struct error *err);
void channel_close(struct channel *c); /* may be called from the owner's functions, and twice */

/* Queues a frame and writes as much as the socket takes. Returns 0, -EMSGSIZE (too long, nothing
 * was queued), -ENOBUFS (all sessions together have too much to read), -ENOMEM or -ENOTCONN. */
int channel_send(struct channel *c, uint8_t type, uint64_t id, const void *payload, size_t n);

/* As channel_send(), for a payload in parts. A large RETURN is sent in a memfd. */
int channel_send_parts(struct channel *c, uint8_t type, uint64_t id, const struct iovec *parts,
                       size_t n);

/* As channel_send(), for a payload in a memfd, of which it takes ownership in any case. -EMSGSIZE also when many
 * memfds wait to be read and this one is too long for the stream. */
int channel_send_memfd(struct channel *c, uint8_t type, uint64_t id, int fd, size_t length);

/* Sends a header with a descriptor, at once: -EAGAIN if anything is queued before it. */
int channel_send_fd(struct channel *c, uint8_t type, uint64_t id, int fd);

/* The worker did not get the memfd of the frame with this id: frees its memory. A worker that has
 * it mapped would get SIGBUS. */
void channel_take_back(struct channel *c, uint64_t id);

/* Whether the worker has ended without having sent anything, and before it had read all of the frame
 * that was the nth (from 1) and the last one. False also if that is not certain. */
bool channel_was_unread(const struct channel *c, uint64_t n);

/* The worker stands still: a frame that has begun may take as long as that lasts. */
void channel_stand_still(struct channel *c, bool stands_still);

/* Takes frames again. */
void channel_resume(struct channel *c);

/* Takes all frames that are in the socket, after the worker has ended. */
void channel_drain(struct channel *c);
/* After that: drops what has arrived in part, and all that was to be sent. Another process may use the
 * worker's end then. -ENOTCONN: the channel has ended. */
int channel_reset(struct channel *c);

/* ---- RETURN frames: answers to a worker's CALL, QUERY and READ ---- */

struct answer_error {
        const char *kind; /* name of the exception in the sandbox (docs/rpc.md) */
        const char *message;
        int64_t code; /* of a JSON-RPC error; 0: none */
        yyjson_val *data;
        const char *rule, *why; /* of ToolDenied, or NULL */
};

/* Each answers the request with this number. A failure to send is logged, unless the channel has ended. */
void answer_error(struct channel *channel, uint64_t number, const struct answer_error *error);
/* Answers with a ToolError. */
void answer_refuse(struct channel *channel, uint64_t number, const char *why);
/* Answers a request that has no result. */
void answer_confirm(struct channel *channel, uint64_t number);

/* Answers with the result, a JSON text. Returns as channel_send_parts(). */
int answer_result(struct channel *channel, uint64_t number, const char *text, size_t n);
/* Answers with a result that no server has given: the worker notes when code uses it. Returns as channel_send_parts(). */
int answer_blank(struct channel *channel, uint64_t number, const char *text, size_t n);
