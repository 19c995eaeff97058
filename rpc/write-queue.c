/* A queue of bytes. */
#include "rpc/write-queue.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* A piece that has more is not appended to, so that none grows large. */
enum { PIECE_FULL = 64 * 1024 };

struct write_piece {
        TAILQ_ENTRY(write_piece) link;
        struct buffer bytes;      /* if there is no text */
        struct shared_text *text; /* or NULL */
        size_t written;           /* of the text */
};

void write_queue_init(struct write_queue *q)
{
        TAILQ_INIT(&q->pieces);
        q->length = 0;
}

static struct write_piece *free_piece(struct write_piece *piece)
{
        if (!piece)
                return NULL;
        buffer_done(&piece->bytes);
        shared_text_unref(piece->text);
        free(piece);
        return NULL;
}

void write_queue_done(struct write_queue *q)
{
        struct write_piece *piece;

        while ((piece = TAILQ_FIRST(&q->pieces))) {
                TAILQ_REMOVE(&q->pieces, piece, link);
                free_piece(piece);
        }
        q->length = 0;
}

static struct write_piece *new_piece(const void *bytes, size_t n)
{
        struct write_piece *piece = calloc(1, sizeof(*piece));

        if (!piece)
                return NULL;
        buffer_init(&piece->bytes, SIZE_MAX / 2);
        return buffer_append(&piece->bytes, bytes, n) < 0 ? free_piece(piece) : piece;
}

/* Returns 0, or -ENOMEM and nothing was appended. */
static int append(struct write_queue *q, const void *bytes, size_t n)
{
        struct write_piece *last = TAILQ_LAST(&q->pieces, write_pieces);

        if (last && !last->text && last->bytes.length < PIECE_FULL) {
                if (buffer_append(&last->bytes, bytes, n) < 0)
                        return -ENOMEM;
        } else {
                struct write_piece *piece = new_piece(bytes, n);
                if (!piece)
                        return -ENOMEM;
                TAILQ_INSERT_TAIL(&q->pieces, piece, link);
        }
        q->length += n;
        return 0;
}

int write_queue_add(struct write_queue *q, const struct buffer *before, struct shared_text *text,
                    const char *after, size_t n_after)
{
        if (!text)
                return append(q, buffer_bytes(before), before->length);

        struct write_piece *middle = new_piece("", 0), *last = new_piece(after, n_after);
        if (!middle || !last || append(q, buffer_bytes(before), before->length) < 0) {
                free_piece(middle);
                free_piece(last);
                return -ENOMEM;
        }
        middle->text = shared_text_ref(text);
        TAILQ_INSERT_TAIL(&q->pieces, middle, link);
        TAILQ_INSERT_TAIL(&q->pieces, last, link);
        q->length += text->n + n_after;
        return 0;
}

/* Writes of the first piece once. Returns bytes or negative errno. */
static ssize_t write_first(struct write_queue *q, int fd, size_t most)
{
        struct write_piece *piece = TAILQ_FIRST(&q->pieces);
        struct shared_text *text = piece->text;
        const char *bytes = text ? text->bytes + piece->written : buffer_bytes(&piece->bytes);
        size_t left = text ? text->n - piece->written : piece->bytes.length;
        ssize_t n = left == 0 ? 0 : write(fd, bytes, left < most ? left : most);

        if (n < 0)
                return -errno;
        q->length -= (size_t)n;
        if ((size_t)n == left) {
                TAILQ_REMOVE(&q->pieces, piece, link);
                free_piece(piece);
        } else if (text) {
                piece->written += (size_t)n;
        } else {
                buffer_consume(&piece->bytes, (size_t)n);
        }
        return n;
}

int write_queue_write(struct write_queue *q, int fd)
{
        size_t room = WRITE_QUEUE_TURN;

        while (!TAILQ_EMPTY(&q->pieces) && room > 0) {
                ssize_t n = write_first(q, fd, room);
                if (n == -EINTR)
                        continue;
                if (n < 0)
                        return n == -EAGAIN ? 0 : (int)n;
                room -= (size_t)n;
        }
        return TAILQ_EMPTY(&q->pieces);
}
