/*
 * Large results on their way into a sandbox, each in a memfd (rpc/frame.h, FRAME_IN_MEMFD).
 *
 * Theory of operation. The pages of a memfd are charged to the broker as long as any process has it
 * open or mapped, so code in the sandbox could hold memory beyond its limit. Therefore the memfd is
 * sealed against writing and growing, but not against truncation: a worker that has read it
 * truncates it to 0, which frees the pages even while another process has it open. A memfd that is not truncated counts
 * as unread, and the broker truncates what is left at the end of the session. Sizes come from
 * fstat().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "rpc/memfd-frame.h"

enum {
        MEMFD_QUEUE_MAX = 8, /* of a session at a time: each takes a descriptor of the broker */
};

struct memfd_frame {
        TAILQ_ENTRY(memfd_frame) link;
        int fd;
        uint64_t id;   /* of the frame */
        size_t length; /* as it was sent */
        uint64_t at;   /* where in the stream its header begins */
        bool sent;
};

struct memfd_queue {
        TAILQ_HEAD(, memfd_frame) list; /* in the stream's order */
        size_t n, bytes;                /* of those that are not truncated */
};

void memfd_queue_init(struct memfd_queue *p);
/* Frees the memory of all of them, including those that the worker still holds. */
void memfd_queue_done(struct memfd_queue *p);

/* Takes fd in any case. Returns 0 or -ENOMEM. */
int memfd_queue_add(struct memfd_queue *p, int fd, size_t length, uint64_t id, uint64_t at);
/* The first that is not sent yet; NULL when there is none. */
struct memfd_frame *memfd_queue_unsent(const struct memfd_queue *p);
/* Removes those that the worker has read. */
void memfd_queue_reap(struct memfd_queue *p);
/* Frees the memory of the one that was sent with this id, if there is one. */
void memfd_queue_take_back(struct memfd_queue *p, uint64_t id);
/* Removes a frame whose payload goes in the stream; the unsent ones after it move by these bytes.
 */
void memfd_queue_remove(struct memfd_queue *p, struct memfd_frame *frame);
void memfd_queue_shift(struct memfd_queue *p, size_t bytes);
