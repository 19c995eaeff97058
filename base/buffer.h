/*
 * A growable byte buffer with a limit. Appending beyond the limit fails with -EMSGSIZE and leaves
 * the buffer unchanged. The only other error is -ENOMEM. The buffer keeps the first error: who appends piece after piece
 * may check it once, at the end.
 *
 *     struct buffer b = BUFFER_INIT(1024 * 1024);
 *     r = buffer_append(&b, data, n);
 *     buffer_consume(&b, used);
 *     buffer_done(&b);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct buffer {
        char *data;   /* owned; bytes [start, start + length) are the content */
        size_t start; /* bytes already consumed at the front */
        size_t length;
        size_t allocated;
        size_t limit; /* maximum of length; never 0 */
        int error;    /* of the first append that failed, or 0 */
};

#define BUFFER_INIT(max)                                                                           \
        {                                                                                          \
                .limit = (max)                                                                     \
        }

void buffer_init(struct buffer *b, size_t limit);
void buffer_done(struct buffer *b);

static inline char *buffer_bytes(const struct buffer *b)
{
        return b->data + b->start;
}

/* Reserves space for n more bytes after the content; write them to buffer_tail(). */
int buffer_reserve(struct buffer *b, size_t n);
void buffer_produced(struct buffer *b, size_t n);

static inline char *buffer_tail(struct buffer *b)
{
        return b->data + b->start + b->length;
}

/* Bytes that may be written at the tail now. */
static inline size_t buffer_room(const struct buffer *b)
{
        return b->allocated - b->start - b->length;
}

/* The slow path of buffer_append(). */
int buffer_grow_append(struct buffer *b, const void *data, size_t n);

/* Inline, because most appended data is short and fits. */
static inline int buffer_append(struct buffer *b, const void *data, size_t n)
{
        if (n == 0)
                return 0;
        if (n > buffer_room(b) || n > b->limit - b->length)
                return buffer_grow_append(b, data, n);
        memcpy(buffer_tail(b), data, n);
        b->length += n;
        return 0;
}

int buffer_append_number(struct buffer *b, int64_t number); /* decimal */
int buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Removes n bytes at the front. When the buffer becomes empty, memory beyond 64 KiB of it is given
 * back to the system. */
void buffer_consume(struct buffer *b, size_t n);

/* Calls read() once and appends at most `most` bytes. Returns the number of bytes, 0 at end of file,
 * or negative errno (-EAGAIN: no data yet; -EMSGSIZE: the buffer is full). */
ssize_t buffer_read_fd(struct buffer *b, int fd, size_t most);

/* Writes from the front until empty or the descriptor would block. Returns 1 when empty, 0 when it
 * would block, negative errno. */
int buffer_write_fd(struct buffer *b, int fd);

static inline int buffer_append_text(struct buffer *b, const char *text)
{
        return buffer_append(b, text, strlen(text));
}

static inline void cleanup_buffer(struct buffer *b)
{
        buffer_done(b);
}
#define _cleanup_buffer_ _cleanup_(cleanup_buffer)
