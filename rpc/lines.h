/*
 * Lines of a stream, with a bound on each: MCP's stdio framing, and what servers write on stderr.
 *
 *     n = lines_read(&l, fd);           (0: the end; -EAGAIN)
 *     while ((r = lines_next(&l, &line, &length)) != 0)
 *             r == 1: a line; r == -EMSGSIZE: one too long was cut
 *
 * Blank lines are passed over; a carriage return before the newline is not part of the line. Time
 * is linear in the bytes read, however they arrive. Memory is at most the bound and one read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buffer.h"

enum {
        LINES_READ = 64 * 1024,        /* bytes of one read */
        LINES_MOST = 64 * 1024 * 1024, /* the usual bound of a message */
};

struct lines {
        struct buffer buffer;
        size_t most;    /* bytes of a line */
        size_t scanned; /* bytes at the front without a newline */
        size_t taken;   /* bytes that the last line given out occupies */
        bool skipping;  /* within a line that was too long */
};

void lines_init(struct lines *l, size_t most);
void lines_done(struct lines *l);

/* Reads once. Returns bytes, 0 at the end, negative errno. Call lines_next() until it returns 0
 * between reads. */
ssize_t lines_read(struct lines *l, int fd);

/* The same for bytes that are here already, at most LINES_READ at once. */
int lines_feed(struct lines *l, const void *data, size_t n);

/*
 * The next line. Returns 1 with a view valid until the next call, 0 when more bytes are needed,
 * -EMSGSIZE for a line above the bound: the view is its beginning, the rest is skipped.
 */
int lines_next(struct lines *l, const char **line, size_t *length);

/* What is left without a newline at the end of the stream. Returns 1 with the view, 0 when there is
 * nothing. */
int lines_rest(struct lines *l, const char **line, size_t *length);
