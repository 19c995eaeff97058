/*
 * The memory that the broker keeps until a peer reads it: for sessions answers to their workers, output, displays and
 * arguments of calls; for clients whole outputs. Each kind of peer has a pool, which bounds the sum.
 *
 * Each peer has an account. It may grow to twice the free memory of its pool ("dynamic thresholds", as switches share
 * their buffers), and to ACCOUNT_MOST. One peer alone gets two thirds of the pool; N peers that take all that they can
 * leave 1/(2N + 1) for the next one, so no number of peers can take all. A peer can always have ACCOUNT_FREE bytes.
 *
 * The functions may be called in each thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
        ACCOUNTS_SESSIONS_MAX = 224 * 1024 * 1024,
        /* Of one peer. Another one has room for 64 MiB then. */
        ACCOUNT_MOST = 128 * 1024 * 1024,
        ACCOUNTS_CLIENTS_MAX = 96 * 1024 * 1024,
        ACCOUNT_FREE = 16 * 1024,
};

enum memory_account_pool { ACCOUNT_OF_SESSION, ACCOUNT_OF_CLIENT, ACCOUNT_POOLS };

struct memory_account;

/* Returns NULL when out of memory. */
struct memory_account *memory_account_new(enum memory_account_pool pool);
/* Drops a reference; charges hold the others. NULL is allowed. Returns NULL. */
struct memory_account *memory_account_unref(struct memory_account *account);

/* Bytes that are kept, charged to an account; all zero at the start. Without an account they are not bounded. */
struct charge {
        struct memory_account *account;
        size_t bytes;
};

/* The charge must be all zero. account may be NULL. */
void charge_open(struct charge *charge, struct memory_account *account);
void charge_done(struct charge *charge);
/* Whether n more bytes may be charged. */
bool charge_fits(const struct charge *charge, size_t n);
/* Sets the bytes that are kept now, whether they fit or not. */
void charge_set(struct charge *charge, size_t bytes);

/*
 * A large text that several hold, so that it is not copied: the arguments of a call, which its session
 * sent, which wait to be written, and which its server may ask for again. For the loop's thread only.
 */
struct shared_text {
        unsigned refs;
        char *bytes; /* owned, of malloc() */
        size_t n;
        struct charge charge; /* of its length, to the account of its sender */
};

/* Takes the bytes in any case. Returns NULL when out of memory. */
struct shared_text *shared_text_new(char *bytes, size_t n);

static inline struct shared_text *shared_text_ref(struct shared_text *text)
{
        text->refs++;
        return text;
}

/* NULL is allowed. Returns NULL. */
struct shared_text *shared_text_unref(struct shared_text *text);
