/*
 * Files as a stream of records: what `cloister run` sends with --in and receives with --out.
 *
 *     offset  size  field
 *     0       1     type      enum file_stream_type
 *     1       3     reserved  0
 *     4       4     length    bytes of payload, little-endian, at most FILE_STREAM_PIECE_MAX
 *
 * A file is FILE (its path), any number of DATA, then CLOSE, or ABORT when the rest cannot be read.
 * END is the last record.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
        FILE_STREAM_HEADER = 8,
        FILE_STREAM_PIECE_MAX = 1024 * 1024,
        FILE_STREAM_FILES_MAX = 20000,
        FILE_STREAM_TEXT_MAX = 244,
};
#define FILE_STREAM_BYTES_MAX (4ULL * 1024 * 1024 * 1024) /* of all files of a stream */

enum file_stream_type {
        FILE_STREAM_FILE = 1,
        FILE_STREAM_DATA,
        FILE_STREAM_CLOSE,
        FILE_STREAM_ABORT,
        FILE_STREAM_END,
};

/* Returns 0, -EMSGSIZE or -ENOMEM. */
int file_stream_append(struct buffer *to, enum file_stream_type type, const void *payload,
                       size_t n);

/* The state of a reader; all zeroes at the start. */
struct file_stream {
        bool open, ended;
        uint64_t files, bytes;
};

struct file_record {
        enum file_stream_type type;
        const char *payload; /* in the buffer; a path is not terminated */
        size_t n;
};

/*
 * The record at the front of a buffer, which the caller consumes (FILE_STREAM_HEADER + n bytes).
 * Returns 1, 0 when it is incomplete, -EBADMSG when it is not allowed here (or its path is not
 * file_path_valid()), -EFBIG above the maximum sizes.
 */
int file_stream_peek(struct file_stream *stream, const struct buffer *from, struct file_record *ret,
                     struct error *err);

/* The answer of the receiver: one, after END or at its first error. */
struct file_stream_reply {
        uint32_t code; /* 0, or a positive errno value */
        uint32_t files;
        char text[FILE_STREAM_TEXT_MAX]; /* why, in one line; NUL-terminated */
};
