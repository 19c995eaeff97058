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
        PARCEL_LEAST = 1024 * 1024, /* shorter ones are as fast in the stream */
        PARCELS_MOST = 8,           /* of a session at a time: each is a descriptor of ours */
};

struct parcel {
        TAILQ_ENTRY(parcel) link;
        int fd;
        uint64_t id;   /* of the frame */
        size_t length; /* as it was sent */
        uint64_t at;   /* where in the stream its header begins */
        bool sent;
};

struct parcels {
        TAILQ_HEAD(, parcel) list; /* in the stream's order */
        size_t n, bytes;           /* of those whose content is still there */
};

void parcels_init(struct parcels *p);
/* Frees all of their memory, also what the worker still holds. */
void parcels_done(struct parcels *p);

/* A memfd of these parts, sealed but for cutting. Returns the descriptor or negative errno. */
int parcel_make(const struct iovec *parts, size_t n);

/* Takes fd in any case. Returns 0 or -ENOMEM. */
int parcels_add(struct parcels *p, int fd, size_t length, uint64_t id, uint64_t at);
/* The first that is not sent yet; NULL when there is none. */
struct parcel *parcels_unsent(const struct parcels *p);
/* Forgets those that the worker has read. */
void parcels_reap(struct parcels *p);
/* Frees the memory of the one that was sent with this id, where there is one. */
void parcels_take_back(struct parcels *p, uint64_t id);
/* This one goes another way: frees it; those behind it move by so many bytes. */
void parcels_remove(struct parcels *p, struct parcel *parcel);
void parcels_shift(struct parcels *p, size_t bytes);
