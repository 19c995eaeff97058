/*
 * Bytes that wait to be written to a pipe: small pieces that are copied, and large texts that are not.
 */
#pragma once

#include <stddef.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "rpc/shared-text.h"

struct write_piece;

struct write_queue {
        TAILQ_HEAD(write_pieces, write_piece) pieces;
        size_t length; /* of all */
};

enum { WRITE_QUEUE_TURN = 1024 * 1024 }; /* bytes that write_queue_write() writes at most */

void write_queue_init(struct write_queue *q);
void write_queue_done(struct write_queue *q);

/* Appends before, the text and after: all or nothing. A reference to the text is taken; if it is NULL,
 * all is in before. Returns 0 or -ENOMEM. */
int write_queue_add(struct write_queue *q, const struct buffer *before, struct shared_text *text,
                    const char *after, size_t n_after);

/* Writes what the descriptor takes. Returns 1 when all is written, 0: later, or negative errno. */
int write_queue_write(struct write_queue *q, int fd);
