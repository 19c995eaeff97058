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
        SINK_MAX = 1024 * 1024 *
                   1024,             /* bytes that wait; the owner stops its sources long before */
        SINK_HIGH = 4 * 1024 * 1024, /* above it sink_is_full() */
};

struct sink_owner {
        void *data;
        void (*drained)(void *data);          /* fell below SINK_HIGH again, or is empty */
        void (*broken)(void *data, int code); /* nobody reads any more; positive errno. Once. */
};

struct sink {
        int fd; /* borrowed */
        enum { SINK_FILE, SINK_PIPE, SINK_SOCKET } kind;
        struct sink_owner owner;
        struct event *writable;
        struct buffer buffer;
        bool has_nowait; /* as far as we know */
        bool waiting, was_full, broken;
};

int sink_open(struct sink *sink, struct event_base *base, int fd, const struct sink_owner *owner,
              struct error *err);
void sink_close(struct sink *sink);

/* Writes what goes, queues the rest. What a broken sink is given is dropped. */
void sink_write(struct sink *sink, const void *bytes, size_t n);

static inline bool sink_is_full(const struct sink *sink)
{
        return sink->buffer.length > SINK_HIGH;
}

static inline bool sink_is_empty(const struct sink *sink)
{
        return sink->broken || sink->buffer.length == 0;
}

/* At the end: writes what is left, for at most so long. */
void sink_flush(struct sink *sink, int timeout_ms);
