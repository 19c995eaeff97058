/*
 * Bytes to a descriptor that somebody gave us (standard output, standard error), in order, without
 * ever blocking the loop and without changing a description that others share: a terminal or a pipe
 * keeps its flags.
 *
 * A pipe has RWF_NOWAIT, and where the kernel does not offer that, it takes PIPE_BUF bytes when it
 * polls writable, even a blocking one (pipe(7)); so does a terminal. A socket has MSG_DONTWAIT; a
 * file never blocks. So nobody needs O_NONBLOCK.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
        WRITER_MAX = 1024 * 1024 *
                     1024, /* bytes that wait; the owner stops its sources long before */
        WRITER_HIGH = 4 * 1024 * 1024, /* above it writer_is_full() */
};

struct writer_owner {
        void *data;
        void (*drained)(void *data);          /* fell below WRITER_HIGH again, or is empty */
        void (*broken)(void *data, int code); /* nobody reads any more; positive errno. Once. */
};

struct writer {
        int fd; /* borrowed */
        enum { WRITER_FILE, WRITER_PIPE, WRITER_SOCKET } kind;
        struct writer_owner owner;
        struct event *writable;
        struct buffer buffer;
        bool has_nowait; /* as far as we know */
        bool waiting, was_full, broken;
};

int writer_open(struct writer *writer, struct event_base *base, int fd,
                const struct writer_owner *owner, struct error *err);
void writer_close(struct writer *writer);

/* Writes what goes, queues the rest. What a broken writer is given is dropped. */
void writer_write(struct writer *writer, const void *bytes, size_t n);

static inline bool writer_is_full(const struct writer *writer)
{
        return writer->buffer.length > WRITER_HIGH;
}

static inline bool writer_is_empty(const struct writer *writer)
{
        return writer->broken || writer->buffer.length == 0;
}

/* At the end: writes what is left, for at most so long. */
void writer_flush(struct writer *writer, int timeout_ms);
