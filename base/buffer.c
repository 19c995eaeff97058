/* A growable, bounded run of bytes. */
#include "base/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* The smallest is what glibc's malloc still keeps for each thread, without a search. */
enum { SMALLEST = 1024, KEPT_WHEN_EMPTY = 64 * 1024 };

void buffer_init(struct buffer *b, size_t limit)
{
        *b = (struct buffer)BUFFER_INIT(limit);
}

void buffer_done(struct buffer *b)
{
        free(b->data);
        *b = (struct buffer)BUFFER_INIT(b->limit);
}

static void move_to_front(struct buffer *b)
{
        if (b->start == 0)
                return;
        memmove(b->data, b->data + b->start, b->length);
        b->start = 0;
}

static int reserve(struct buffer *b, size_t n)
{
        assert(b->limit > 0);
        if (n > b->limit - b->length)
                return -EMSGSIZE;
        if (b->allocated - b->start - b->length >= n)
                return 0;
        /* Moving is worth it only when as much is gained as is moved, else appends become
         * quadratic. */
        if (b->start >= b->length && b->allocated - b->length >= n) {
                move_to_front(b);
                return 0;
        }

        size_t want = b->length + n;
        size_t size = b->allocated ? b->allocated : SMALLEST;
        while (size < want)
                size = size > SIZE_MAX / 2 ? want : size * 2;
        move_to_front(b);
        char *data = realloc(b->data, size);
        if (!data)
                return -ENOMEM;
        b->data = data;
        b->allocated = size;
        return 0;
}

int buffer_reserve(struct buffer *b, size_t n)
{
        int r = reserve(b, n);

        if (r < 0 && b->error == 0)
                b->error = r;
        return r;
}

void buffer_produced(struct buffer *b, size_t n)
{
        assert(n <= buffer_room(b));
        b->length += n;
}

int buffer_grow_append(struct buffer *b, const void *data, size_t n)
{
        int r = buffer_reserve(b, n);

        return r < 0 ? r : buffer_append(b, data, n);
}

int buffer_append_number(struct buffer *b, int64_t number)
{
        uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
        char digits[24];
        size_t at = sizeof(digits);

        do
                digits[--at] = (char)('0' + rest % 10);
        while ((rest /= 10) > 0);
        if (number < 0)
                digits[--at] = '-';
        return buffer_append(b, digits + at, sizeof(digits) - at);
}

int buffer_printf(struct buffer *b, const char *format, ...)
{
        size_t room = b->data ? buffer_room(b) : 0;
        va_list args, again;

        va_start(args, format);
        va_copy(again, args);
        int n = vsnprintf(room > 0 ? buffer_tail(b) : NULL, room, format, args);
        va_end(args);

        int r = n < 0 ? -EINVAL : buffer_reserve(b, (size_t)n + 1);
        if (r >= 0 && (size_t)n < room) {
                b->length += (size_t)n;
        } else if (r >= 0) {
                vsnprintf(buffer_tail(b), (size_t)n + 1, format, again);
                b->length += (size_t)n;
        }
        va_end(again);
        return r < 0 ? r : 0;
}

void buffer_consume(struct buffer *b, size_t n)
{
        assert(n <= b->length);
        b->start += n;
        b->length -= n;
        if (b->length > 0)
                return;
        b->start = 0;
        if (b->allocated > KEPT_WHEN_EMPTY) {
                free(b->data);
                b->data = NULL;
                b->allocated = 0;
        }
}

ssize_t buffer_read_fd(struct buffer *b, int fd, size_t most)
{
        size_t left = b->limit - b->length;
        int r = left == 0 ? -EMSGSIZE : buffer_reserve(b, most < left ? most : left);
        if (r < 0)
                return r;

        size_t room = buffer_room(b);
        if (room > left)
                room = left;
        if (room > most)
                room = most;
        ssize_t n;
        do
                n = read(fd, buffer_tail(b), room);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        b->length += (size_t)n;
        return n;
}

int buffer_write_fd(struct buffer *b, int fd)
{
        while (b->length > 0) {
                ssize_t n = write(fd, buffer_bytes(b), b->length);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                buffer_consume(b, (size_t)n);
        }
        return 1;
}
