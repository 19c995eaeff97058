/*
 * Frames between a worker and the broker, over a stream socketpair (docs/rpc.md). frames.def has
 * one row per frame.
 *
 * A frame is a 16-byte little-endian header and a payload:
 *
 *     offset  size  field
 *     0       4     length    bytes of payload, at most FRAME_PAYLOAD_MAX
 *     4       1     type      enum frame_type
 *     5       1     flags     0, or FRAME_IN_MEMFD
 *     6       2     reserved  0
 *     8       8     id        the number of a cell, a call, a catalogue version
 *
 * The length is checked before anything is allocated, and memory grows as bytes arrive.
 *
 * With FRAME_IN_MEMFD the payload is not in the stream: it is the whole content of a sealed memfd
 * that came as SCM_RIGHTS with the header. Only the broker sends such frames.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
        FRAME_HEADER_SIZE = 16,
        FRAME_PAYLOAD_MAX = 64 * 1024 * 1024,
        FRAME_CALL_MAX = 17 * 1024 * 1024, /* 16 MiB of text, and the JSON around it */
        FRAME_RESULT_MAX = 4 * 1024 * 1024,
        FRAME_DATA_MAX = 8 * 1024 * 1024,
        FRAME_SMALL_MAX = 64 * 1024,
        FRAME_READ_MAX = 64 * 1024, /* bytes that one READ can ask for */
        FRAME_EXIT_LOST = 113,      /* exit status of a worker whose channel was closed or broke */
};

enum frame_type {
#define FRAME(name, number, ...) FRAME_##name = number,
#include "rpc/frames.def"
#undef FRAME
};

/* Returns true if a descriptor comes with the header. Such a frame has no payload. */
bool frame_has_fd(uint8_t type);

/* Returns the largest payload that the broker accepts in a worker's frame of this type. */
uint32_t frame_worker_max(uint8_t type);

/* Flags of a header; allowed in RETURN only. */
enum { FRAME_IN_MEMFD = 0x01 };

struct frame_header {
        uint32_t length;
        uint8_t type;
        uint8_t flags;
        uint16_t reserved;
        uint64_t id;
};

const char *frame_type_name(uint8_t type); /* "EXEC"…; "unknown" */

void frame_header_encode(const struct frame_header *header, uint8_t to[FRAME_HEADER_SIZE]);

/* The length of the frame in the stream, with its header. */
static inline size_t frame_size(const struct frame_header *header)
{
        return FRAME_HEADER_SIZE + (header->flags & FRAME_IN_MEMFD ? 0 : (size_t)header->length);
}

/* Returns 0, -EBADMSG (unknown type, flags that the type does not have, or a reserved field that is not
 * 0), or -EMSGSIZE when the length is above `most`. */
int frame_header_decode(const uint8_t from[FRAME_HEADER_SIZE], uint32_t most,
                        struct frame_header *ret, struct error *err);

/* Appends a frame. Returns 0, -EMSGSIZE (maximum of the payload or of the buffer), -ENOMEM. */
int frame_append(struct buffer *b, uint8_t type, uint64_t id, const void *payload, size_t n);
/* As frame_append(), with a payload in n parts. */
int frame_append_parts(struct buffer *b, uint8_t type, uint64_t id, const struct iovec *parts,
                       size_t n);

/* Looks for a complete frame at the front of b. Returns 1 with the header and a pointer to the payload
 * (NULL when it is in a memfd), valid until b changes; the caller consumes frame_size() bytes. Returns
 * 0 when more bytes are needed, negative errno as frame_header_decode(). */
int frame_peek(const struct buffer *b, uint32_t most, struct frame_header *ret,
               const char **payload, struct error *err);
