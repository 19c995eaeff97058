/*
 * Large results on their way into a sandbox, each in a memfd (rpc/frame.h, FRAME_IN_MEMFD).
 *
 * Theory of operation. Their pages are ours, not the sandbox's, for as long as anybody holds the
 * memfd: code in the sandbox could keep every one it gets, beyond the end of its memory limit. So
 * the content is sealed, and it can't grow, but it can be cut: a worker that has read it cuts it to
 * nothing, which frees the pages whoever holds it; what a worker has not cut counts as waiting to
 * be read, and what is left at the session's end is cut here. The size is the kernel's word.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

enum {
        MEMFD_FRAME_LEAST = 1024 * 1024, /* shorter ones are as fast in the stream */
        MEMFD_QUEUE_MAX = 8,             /* of a session at a time: each is a descriptor of ours */
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
        size_t n, bytes;                /* of those whose content is still there */
};

void memfd_queue_init(struct memfd_queue *p);
/* Frees all of their memory, also what the worker still holds. */
void memfd_queue_done(struct memfd_queue *p);

/* A memfd of these parts, sealed but for cutting. Returns the descriptor or negative errno. */
int memfd_frame_make(const struct iovec *parts, size_t n);

/* Takes fd in any case. Returns 0 or -ENOMEM. */
int memfd_queue_add(struct memfd_queue *p, int fd, size_t length, uint64_t id, uint64_t at);
/* The first that is not sent yet; NULL when there is none. */
struct memfd_frame *memfd_queue_unsent(const struct memfd_queue *p);
/* Forgets those that the worker has read. */
void memfd_queue_reap(struct memfd_queue *p);
/* Frees the memory of the one that was sent with this id, where there is one. */
void memfd_queue_take_back(struct memfd_queue *p, uint64_t id);
/* This one goes another way: frees it; those behind it move by so many bytes. */
void memfd_queue_remove(struct memfd_queue *p, struct memfd_frame *frame);
void memfd_queue_shift(struct memfd_queue *p, size_t bytes);
