/*
 * Frames between a worker and the broker, over a stream socketpair (docs/rpc.md).
 *
 * A frame is a 16-byte little-endian header and a payload, which is JSON except in EXEC:
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
        FRAME_CALL_MAX = 17 * 1024 *
                         1024, /* of CALL and DISPLAY: 16 MiB of text, and what is around it */
        FRAME_RESULT_MAX = 4 * 1024 * 1024,
        FRAME_DATA_MAX = 8 * 1024 * 1024,
        FRAME_SMALL_MAX = 64 * 1024, /* of the worker's other frames */
        FRAME_READ_MAX = 64 * 1024,  /* bytes that one READ can ask for */
        FRAME_EXIT_LOST = 113,       /* exit status of a worker whose channel was closed or broke */
};

/* Bit 6 is set in what a worker sends. */
enum frame_type {
        /* broker -> worker */
        FRAME_EXEC = 0x01,   /* id: cell. The code, a NUL byte, its file name; not JSON */
        FRAME_RETURN = 0x02, /* id: of the CALL or QUERY it answers. {"ok": true, "result": …} or
                                {"ok": false, "error": {"kind", "message", …}} */
        FRAME_CANCEL = 0x03, /* id: cell; reserved: cells are stopped by a signal */
        FRAME_CATALOG =
                0x04, /* id: version. {"servers": [{"name", "state", "error"?, "tools": […]}]} */
        FRAME_RESTORE = 0x05, /* reserved for checkpoints */
        FRAME_FETCH = 0x06,   /* id: the broker's number. {"path", "offset", "length"} below
                                 /workspace, or {"list": most}: the files of /workspace/out */
        FRAME_PUT = 0x07,     /* id: the broker's number. {"path", "offset", "data"} */
        FRAME_INPUT =
                0x08, /* id: cell, which is published code. Before its EXEC. {"kind", "arguments",
                                 "answers", "capabilities", …} (docs/rpc.md) */
        FRAME_KEEP = 0x09, /* id: counts up. Make a copy (docs/cells.md). {"copies": [pids]} */
        FRAME_DUMP = 0x0a, /* id: cell. With a descriptor: write all there is to it
                              (docs/branches.md). Answered by RESULT. No payload */
        FRAME_LOAD =
                0x0b, /* id: cell, the first one. With a descriptor: become what it has. Answered by
                              RESULT. No payload */
        FRAME_CHECK =
                0x0c, /* id: cell. As EXEC, but the code is only checked (docs/preflight.md) */
        FRAME_SCRIPT =
                0x0d, /* id: cell, code of `cloister run`. Before its EXEC. {"arguments": [str…],
                              "environment": {…}, "file"?: str, "input": "none" | "pipe" | "terminal"} */
        FRAME_PROBE =
                0x0e, /* id: cell. A question of a prompt, in place of code, as EXEC: leaves no trace */
        FRAME_DOOR = 0x0f, /* id: of the KEEP that follows. With a descriptor: the door of that copy
                              (docs/branches.md). No payload */
        FRAME_NEED = 0x10, /* id: cell. Before its EXEC. {"dependencies": [requirements]}, which the
                              worker has installed first (docs/packages.md) */
        /* worker -> broker */
        FRAME_RESULT = 0x41, /* id: cell. {"status", "value"?, "error"?, "exit_code"?, "files"?,
                                  "files_total"?}; of published code also "output", "requests" */
        FRAME_CALL = 0x42,   /* id: the worker's number. {"server", "tool", "arguments": {…}} */
        FRAME_DISPLAY =
                0x43, /* id: cell. {"mime", "text"} or {"mime", "data": base64}; of published
                                  code also {"block": content block} */
        FRAME_PROGRESS = 0x44, /* id: cell, published code. {"progress", "total"?, "message"?} */
        FRAME_LOG = 0x45,   /* id: 0. {"level", "message"}. Or id: cell, published code. {"level",
                                  "data"} */
        FRAME_ASK = 0x46,   /* reserved for approval */
        FRAME_QUERY = 0x47, /* id: the worker's number. {"what": "catalogue", "wait_ms": n},
                                  {"what": "search", "q", "limit", "wait_ms"}, {"what": "undo"} or
                                  {"what": "transaction", "step"} or {"what": "install", …} */
        FRAME_DROP = 0x48,  /* id: a CALL or QUERY that is cancelled. {} */
        FRAME_DATA = 0x49, /* id: of the FETCH or PUT. {"ok": true, …} or {"ok": false, "error"} */
        FRAME_KEPT = 0x4a,     /* id: of the KEEP. {"pid", "threads", "processes"} or {"why"} */
        FRAME_RESTORED = 0x4b, /* id: of the KEEP that the copy answered. {"threads",
                                  "processes", "files", "files_total"} */
        FRAME_READ = 0x4c, /* id: the worker's number. {"length": n}: standard input, of a cell that
                              has one. Answered by RETURN with base64; "" at the end */
};

/* Whether a descriptor comes with the header, and no payload. */
static inline bool frame_has_fd(uint8_t type)
{
        return type == FRAME_DUMP || type == FRAME_LOAD || type == FRAME_DOOR;
}

/* The most bytes of payload that the broker takes of a worker's frame of this type. */
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
/* The same, with a payload in n parts. */
int frame_append_parts(struct buffer *b, uint8_t type, uint64_t id, const struct iovec *parts,
                       size_t n);

/* Looks for a complete frame at the front of b. Returns 1 with the header and a pointer to the payload
 * (NULL when it is in a memfd), valid until b changes; the caller consumes frame_size() bytes. Returns
 * 0 when more bytes are needed, negative errno as frame_header_decode(). */
int frame_peek(const struct buffer *b, uint32_t most, struct frame_header *ret,
               const char **payload, struct error *err);
