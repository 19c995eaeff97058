/* Accounts of memory. */
#include "rpc/share.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { FACTOR = 2 };

struct share {
        enum share_pool pool;
        atomic_size_t used;
        atomic_uint refs;
};

static const size_t most[SHARE_POOLS] = {SHARES_SESSIONS_MAX, SHARES_CLIENTS_MAX};
static atomic_size_t used_by_all[SHARE_POOLS];

struct share *share_new(enum share_pool pool)
{
        struct share *share = calloc(1, sizeof(*share));

        if (!share)
                return NULL;
        share->pool = pool;
        atomic_store(&share->refs, 1);
        return share;
}

struct share *share_unref(struct share *share)
{
        if (share && atomic_fetch_sub(&share->refs, 1) == 1)
                free(share);
        return NULL;
}

void charge_open(struct charge *charge, struct share *share)
{
        assert(!charge->share && charge->bytes == 0);
        if (share)
                atomic_fetch_add(&share->refs, 1);
        charge->share = share;
}

void charge_done(struct charge *charge)
{
        charge_set(charge, 0);
        charge->share = share_unref(charge->share);
}

bool charge_fits(const struct charge *charge, size_t n)
{
        if (!charge->share || n == 0)
                return true;
        enum share_pool pool = charge->share->pool;
        size_t own = atomic_load(&charge->share->used) + n;
        size_t all = atomic_load(&used_by_all[pool]) + n;
        size_t free = all < most[pool] ? most[pool] - all : 0;

        return own <= SHARE_FREE || (own <= SHARE_MOST && own <= FACTOR * free);
}

void charge_set(struct charge *charge, size_t bytes)
{
        size_t before = charge->bytes;

        if (!charge->share || bytes == before)
                return;
        charge->bytes = bytes;
        /* The difference wraps around where it is negative. */
        atomic_fetch_add(&charge->share->used, bytes - before);
        atomic_fetch_add(&used_by_all[charge->share->pool], bytes - before);
}
