/* Splits a stream into lines. */
#include "rpc/lines.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/memfd-frame.h"

void lines_init(struct lines *l, size_t most)
{
        assert(most > 0);
        *l = (struct lines){.most = most};
        /* lines_next() leaves at most one line without its newline; one read is added to it.
         */
        buffer_init(&l->buffer, most + 2 + LINES_READ);
}

void lines_done(struct lines *l)
{
        buffer_done(&l->buffer);
        l->scanned = l->taken = 0;
        l->skipping = false;
}

static void drop_taken(struct lines *l)
{
        buffer_consume(&l->buffer, l->taken);
        l->taken = 0;
}

ssize_t lines_read(struct lines *l, int fd)
{
        drop_taken(l);
        return buffer_read_fd(&l->buffer, fd, LINES_READ);
}

int lines_feed(struct lines *l, const void *data, size_t n)
{
        assert(n <= LINES_READ);
        drop_taken(l);
        return buffer_append(&l->buffer, data, n);
}

static bool is_blank(const char *line, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (line[i] != ' ' && line[i] != '\t')
                        return false;
        }
        return true;
}

static size_t without_return(const char *line, size_t n)
{
        return n > 0 && line[n - 1] == '\r' ? n - 1 : n;
}

/* Returns the first n bytes as a line; with its newline it has `taken`. */
static void give(struct lines *l, size_t n, size_t taken, const char **line, size_t *length)
{
        *line = buffer_bytes(&l->buffer);
        *length = n;
        l->taken = taken;
        l->scanned = 0;
}

/* The offset of the next newline; the length of the content when there is none yet. */
static size_t find_end(struct lines *l)
{
        struct buffer *b = &l->buffer;
        const char *found = NULL;

        if (l->scanned < b->length)
                found = memchr(buffer_bytes(b) + l->scanned, '\n', b->length - l->scanned);
        return found ? (size_t)(found - buffer_bytes(b)) : b->length;
}

int lines_next(struct lines *l, const char **line, size_t *length)
{
        struct buffer *b = &l->buffer;

        drop_taken(l);
        while (b->length > 0) {
                size_t end = find_end(l);
                bool whole = end < b->length;

                if (l->skipping) {
                        buffer_consume(b, whole ? end + 1 : end);
                        l->scanned = 0;
                        l->skipping = !whole;
                        continue;
                }
                l->scanned = end;
                size_t n = end == 0 ? 0 : without_return(buffer_bytes(b), end);
                if (n > l->most) {
                        l->skipping = !whole;
                        give(l, l->most, whole ? end + 1 : end, line, length);
                        return -EMSGSIZE;
                }
                if (!whole)
                        return 0;
                if (!is_blank(buffer_bytes(b), n)) {
                        give(l, n, end + 1, line, length);
                        return 1;
                }
                buffer_consume(b, end + 1);
                l->scanned = 0;
        }
        return 0;
}

int lines_take(struct lines *l, size_t length, struct buffer *ret)
{
        struct buffer rest = BUFFER_INIT(l->buffer.limit);

        int r = buffer_append(&rest, buffer_bytes(&l->buffer) + l->taken,
                              l->buffer.length - l->taken);
        if (r < 0)
                return r;
        *ret = l->buffer;
        ret->length = length;
        l->buffer = rest;
        l->taken = l->scanned = 0;
        return 0;
}

void lines_skip(struct lines *l, const char **line, size_t *length)
{
        drop_taken(l);
        give(l, l->buffer.length, l->buffer.length, line, length);
        l->skipping = true;
}

int lines_rest(struct lines *l, const char **line, size_t *length)
{
        struct buffer *b = &l->buffer;

        drop_taken(l);
        if (l->skipping || b->length == 0)
                return 0;
        size_t n = without_return(buffer_bytes(b), b->length);
        if (is_blank(buffer_bytes(b), n))
                return 0;
        give(l, n, b->length, line, length);
        return 1;
}

/* ---- long lines ---- */

enum { ERROR_DATA_MAX = 1024 * 1024 };

/* Without a memfd the result is sent from its text. */
static void move_result(struct large_line *line)
{
        static char before[] = RETURN_BEFORE, after[] = RETURN_AFTER;
        struct jsonrpc_message *m = &line->message;
        const struct iovec parts[] = {
                {.iov_base = before, .iov_len = sizeof(before) - 1},
                {.iov_base = (void *)(uintptr_t)m->text, .iov_len = m->text_length},
                {.iov_base = after, .iov_len = sizeof(after) - 1},
        };

        line->memfd = memfd_frame_make(parts, ARRAY_SIZE(parts));
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
                line->memfd_length += parts[i].iov_len;
        if (line->memfd >= 0)
                m->text = NULL;
}

static void run(struct background_job *job)
{
        struct large_line *line = (void *)job;
        struct jsonrpc_message *m = &line->message;
        const char *text = buffer_bytes(&line->text);

        line->r = jsonrpc_parse(text, line->text.length, m, &line->err);
        if (line->r == -EBADMSG && text[0] == '{')
                line->has_id = jsonrpc_guess_id(text, line->text.length, &line->id);
        if (line->r < 0)
                return;
        if (m->kind == JSONRPC_ERROR && line->text.length > ERROR_DATA_MAX)
                m->error_data = NULL;
        if (line->wants_memfd && m->kind == JSONRPC_RESPONSE && m->text &&
            m->text_length >= MEMFD_FRAME_MIN)
                move_result(line);
        if (!m->text)
                buffer_done(&line->text);
}

static void free_line(struct background_job *job)
{
        struct large_line *line = (void *)job;

        if (line->memfd >= 0)
                close(line->memfd);
        background_free_json(line->message.doc);
        background_free(line->text.data, line->text.allocated);
        free(line);
}

static void finish(struct background_job *job)
{
        struct large_line *line = (void *)job;

        line->done(line->data, line);
        free_line(job);
}

struct large_line *large_line_start(struct event_base *base, struct buffer *text, bool wants_memfd,
                                    void (*done)(void *data, struct large_line *line), void *data)
{
        static const struct background_kind kind = {run, finish, free_line};
        struct large_line *line = calloc(1, sizeof(*line));

        if (!line) {
                buffer_done(text);
                return NULL;
        }
        line->text = *text;
        *text = (struct buffer)BUFFER_INIT(text->limit);
        line->wants_memfd = wants_memfd;
        line->memfd = -1;
        line->done = done;
        line->data = data;
        background_start(&line->job, &kind, base);
        return line;
}

struct large_line *large_line_cancel(struct large_line *line)
{
        if (line)
                background_cancel(&line->job);
        return NULL;
}
