/*
 * Splits a stream into lines of bounded length: MCP over stdio, and the stderr of servers.
 *
 *     n = lines_read(&l, fd);           (0: the end; -EAGAIN)
 *     while ((r = lines_next(&l, &line, &length)) != 0)
 *             r == 1: a line; r == -EMSGSIZE: the beginning of a line that is too long
 *
 * Blank lines are skipped; a carriage return before the newline is not part of the line. Time is
 * linear in the bytes read, also if they arrive one by one. Memory is at most one line and one read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "rpc/background.h"
#include "rpc/jsonrpc.h"

enum {
        LINES_READ = 64 * 1024,       /* bytes of one read */
        LINES_MAX = 64 * 1024 * 1024, /* maximum of a JSON-RPC message */
};

struct lines {
        struct buffer buffer;
        size_t most;    /* maximum length of a line */
        size_t scanned; /* bytes at the front that were searched for a newline */
        size_t taken;   /* bytes of the last line that was returned, with its newline */
        bool skipping;  /* within a line that was too long */
};

void lines_init(struct lines *l, size_t most);
void lines_done(struct lines *l);

/* Reads once. Returns bytes, 0 at the end, negative errno. Call lines_next() until it returns 0
 * between reads. */
ssize_t lines_read(struct lines *l, int fd);

/* Takes bytes from memory, at most LINES_READ at once. */
int lines_feed(struct lines *l, const void *data, size_t n);

/*
 * The next line. Returns 1 with a pointer that is valid until the next call, 0 when more bytes are
 * needed, -EMSGSIZE for a line that is too long: the pointer is to its beginning, the rest is skipped.
 */
int lines_next(struct lines *l, const char **line, size_t *length);

/* Moves the line that was returned last into a buffer, which the caller frees. Returns 0 or -ENOMEM. */
int lines_take(struct lines *l, size_t length, struct buffer *ret);

/* Bytes of the line that has begun. */
static inline size_t lines_begun(const struct lines *l)
{
        return l->buffer.length - l->taken;
}

/* Skips the line that has begun. Its beginning, until the next read: *line, with its length. */
void lines_skip(struct lines *l, const char **line, size_t *length);

/* The last line of a stream that does not end with a newline. Returns 1, or 0 when there is none. */
int lines_rest(struct lines *l, const char **line, size_t *length);

/*
 * A long line with a JSON-RPC message, which is parsed in the background (rpc/background.h).
 *
 * The result of a tool is moved into a memfd on the way, as a worker gets it (rpc/memfd-frame.h), so
 * that the loop does not copy it.
 */
struct large_line {
        struct background_job job; /* first */
        struct buffer text;
        bool wants_memfd;

        /* The result of jsonrpc_parse(). The message has no text if there is a memfd. */
        int r;
        struct error err;
        struct jsonrpc_message message;
        bool has_id; /* of a line that is not a message: jsonrpc_guess_id() */
        int64_t id;
        int memfd; /* -1: none */
        size_t memfd_length;

        void (*done)(void *data, struct large_line *line);
        void *data;
};

/* Takes the text. done() may take the message and the memfd (set to -1); the rest is freed after it.
 * Returns NULL when out of memory, and the text is freed. */
struct large_line *large_line_start(struct event_base *base, struct buffer *text, bool wants_memfd,
                                    void (*done)(void *data, struct large_line *line), void *data);
/* done() is not called. NULL is allowed. Returns NULL. */
struct large_line *large_line_cancel(struct large_line *line);
