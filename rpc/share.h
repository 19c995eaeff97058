/*
 * What the broker keeps until somebody reads it: for sessions answers to their workers, output,
 * displays and arguments of calls; for clients whole outputs. Each kind has a pool, which bounds all of it
 * together.
 *
 * Each peer has an account, a share. It may grow to twice what is free of its pool ("dynamic
 * thresholds", as switches share their buffers): one peer alone gets two thirds, and N that take all they
 * can leave 1/(2N + 1) for the next one. So none can take all, however many there are. One has
 * SHARE_MOST at most. A peer can always
 * have SHARE_FREE bytes.
 *
 * The functions may be called in each thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
        SHARES_SESSIONS_MAX = 224 * 1024 * 1024,
        SHARE_MOST = 128 * 1024 *
                     1024, /* of one peer: beside it, another one has room for 64 MiB */
        SHARES_CLIENTS_MAX = 96 * 1024 * 1024,
        SHARE_FREE = 16 * 1024,
};

enum share_pool { SHARE_OF_SESSION, SHARE_OF_CLIENT, SHARE_POOLS };

struct share;

/* Returns NULL when out of memory. */
struct share *share_new(enum share_pool pool);
/* It ends with the last charge. NULL is allowed. Returns NULL. */
struct share *share_unref(struct share *share);

/* Bytes that somebody keeps, charged to a share; all zero at the start. Without a share there is no
 * bound. */
struct charge {
        struct share *share;
        size_t bytes;
};

/* Nothing is charged before. share may be NULL. */
void charge_open(struct charge *charge, struct share *share);
void charge_done(struct charge *charge);
/* Whether n more bytes may be charged. */
bool charge_fits(const struct charge *charge, size_t n);
/* Charges what is there now, whether it fits or not. */
void charge_set(struct charge *charge, size_t bytes);
