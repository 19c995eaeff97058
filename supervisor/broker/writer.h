/*
 * Writes to an inherited descriptor (standard output, standard error) without blocking the loop and
 * without O_NONBLOCK, because other processes share the open file description and its flags.
 *
 * A pipe is written with RWF_NOWAIT. Where the kernel lacks that, a pipe that polls writable takes
 * PIPE_BUF bytes without blocking (pipe(7)), and so does a terminal. A socket is written with
 * MSG_DONTWAIT; a file never blocks.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
        /* When this number of bytes waits, the next message breaks the writer: its owner stops its sources at
         * WRITER_HIGH, but what they have begun may still come. */
        WRITER_MAX = 64 * 1024 * 1024,
        WRITER_MESSAGE_MAX = 1024 * 1024 * 1024, /* of one message */
        WRITER_HIGH = 4 * 1024 * 1024,           /* above it writer_is_full() */
};

struct writer_owner {
        void *data;
        void (*drained)(void *data);          /* the queue fell below WRITER_HIGH, or is empty */
        void (*broken)(void *data, int code); /* positive errno, ENOBUFS: WRITER_MAX; called once */
};

struct writer {
        int fd; /* borrowed */
        enum { WRITER_FILE, WRITER_PIPE, WRITER_SOCKET } kind;
        struct writer_owner owner;
        struct event *writable;
        struct buffer buffer;
        bool has_nowait; /* RWF_NOWAIT has worked, or was not tried */
        bool waiting, was_full, broken;
};

int writer_open(struct writer *writer, struct event_base *base, int fd,
                const struct writer_owner *owner, struct error *err);
void writer_close(struct writer *writer);

/* Writes what does not block and queues the rest. A broken writer drops it. */
void writer_write(struct writer *writer, const void *bytes, size_t n);

static inline bool writer_is_full(const struct writer *writer)
{
        return writer->buffer.length > WRITER_HIGH;
}

static inline bool writer_is_empty(const struct writer *writer)
{
        return writer->broken || writer->buffer.length == 0;
}

/* Before the end: writes the rest of the queue, for at most timeout_ms. */
void writer_flush(struct writer *writer, int timeout_ms);
