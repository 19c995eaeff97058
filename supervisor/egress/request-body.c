/* The end of a request's body (RFC 9112, 6 and 7.1). */
#include "supervisor/egress/request-body.h"

#include <errno.h>

enum { SIZE_DIGITS_MAX = 15 };

/* Of chunks. Extensions and trailers are refused: nobody needs them, and servers read them differently. */
enum state { SIZE, SIZE_END, DATA, DATA_CR, DATA_LF, LAST_CR, LAST_LF, DONE };

int request_body_is_complete(const struct request_body *body)
{
        return body->kind == REQUEST_BODY_LENGTH ? body->left == 0 : body->state == DONE;
}

static int digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int take_size(struct request_body *b, char c)
{
        int value = digit(c);

        if (value >= 0 && b->digits < SIZE_DIGITS_MAX) {
                b->left = b->left * 16 + (uint64_t)value;
                b->digits++;
                return 0;
        }
        if (c != '\r' || b->digits == 0)
                return -EINVAL;
        b->state = SIZE_END;
        return 0;
}

static int expect(struct request_body *b, char c, char wanted, enum state next)
{
        if (c != wanted)
                return -EINVAL;
        b->state = next;
        return 0;
}

static int take_one(struct request_body *b, char c)
{
        switch ((enum state)b->state) {
        case SIZE:
                return take_size(b, c);
        case SIZE_END:
                b->digits = 0;
                return expect(b, c, '\n', b->left ? DATA : LAST_CR);
        case DATA_CR:
                return expect(b, c, '\r', DATA_LF);
        case DATA_LF:
                return expect(b, c, '\n', SIZE);
        case LAST_CR:
                return expect(b, c, '\r', LAST_LF);
        case LAST_LF:
                return expect(b, c, '\n', DONE);
        default:
                return -EINVAL;
        }
}

static size_t take_data(struct request_body *b, size_t n)
{
        size_t used = n < b->left ? n : (size_t)b->left;

        b->left -= used;
        return used;
}

ssize_t request_body_take(struct request_body *body, const char *data, size_t n)
{
        size_t at = 0;

        if (body->kind == REQUEST_BODY_LENGTH)
                return (ssize_t)take_data(body, n);
        while (at < n && body->state != DONE) {
                if (body->state != DATA) {
                        if (take_one(body, data[at++]) < 0)
                                return -EINVAL;
                        continue;
                }
                at += take_data(body, n - at);
                if (body->left == 0)
                        body->state = DATA_CR;
        }
        return (ssize_t)at;
}
