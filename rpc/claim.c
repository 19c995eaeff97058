/* Memory for large documents. */
#include "rpc/claim.h"

#include <assert.h>

#include "base/clock.h"

enum { CHECK_MS = 20 };

TAILQ_HEAD(claim_list, claim);

static struct pool {
        size_t most;
        uint64_t us; /* for a document, when others wait */
        size_t used;
        bool is_turn_of_oldest;
        struct claim_list waiting, granted; /* in order of time */
        struct event *check;                /* while some wait */
} pools[CLAIM_POOLS] = {
        [CLAIM_PARTS] = {.most = CLAIM_PARTS_MAX,
                         .us = CLAIM_PARTS_MS * 1000,
                         .waiting = TAILQ_HEAD_INITIALIZER(pools[CLAIM_PARTS].waiting),
                         .granted = TAILQ_HEAD_INITIALIZER(pools[CLAIM_PARTS].granted)},
        [CLAIM_FRAMES] = {.most = CLAIM_FRAMES_MAX,
                          .us = CLAIM_FRAMES_MS * 1000,
                          .waiting = TAILQ_HEAD_INITIALIZER(pools[CLAIM_FRAMES].waiting),
                          .granted = TAILQ_HEAD_INITIALIZER(pools[CLAIM_FRAMES].granted)},
        [CLAIM_LINES] = {.most = CLAIM_LINES_MAX,
                         .us = CLAIM_LINES_MS * 1000,
                         .waiting = TAILQ_HEAD_INITIALIZER(pools[CLAIM_LINES].waiting),
                         .granted = TAILQ_HEAD_INITIALIZER(pools[CLAIM_LINES].granted)},
};

static void take(struct pool *pool, struct claim *claim)
{
        pool->used += claim->bytes;
        claim->waits = false;
        claim->since = clock_us();
        TAILQ_INSERT_TAIL(&pool->granted, claim, link);
}

static bool comes_before(const struct pool *pool, const struct claim *a, const struct claim *b)
{
        if (a->was_revoked != b->was_revoked)
                return b->was_revoked;
        return !pool->is_turn_of_oldest && a->bytes < b->bytes;
}

static struct claim *next(const struct pool *pool)
{
        struct claim *found = TAILQ_FIRST(&pool->waiting), *claim;

        TAILQ_FOREACH (claim, &pool->waiting, link) {
                if (comes_before(pool, claim, found))
                        found = claim;
        }
        return found;
}

/* granted() may ask and drop. */
static void grant(struct pool *pool)
{
        struct claim *claim;

        while ((claim = next(pool)) && pool->used + claim->bytes <= pool->most) {
                TAILQ_REMOVE(&pool->waiting, claim, link);
                pool->is_turn_of_oldest = !pool->is_turn_of_oldest;
                take(pool, claim);
                claim->owner.granted(claim->owner.data);
        }
        if (TAILQ_EMPTY(&pool->waiting) && pool->check) {
                event_free(pool->check);
                pool->check = NULL;
        }
}

/* The oldest whose time is over. One that was revoked before has none if one that was not waits. */
static struct claim *find_late(const struct pool *pool)
{
        bool new_waits = !next(pool)->was_revoked;
        uint64_t now = clock_us();
        struct claim *claim;

        TAILQ_FOREACH (claim, &pool->granted, link) {
                uint64_t us = claim->was_revoked && new_waits ? 0 : pool->us;
                if (!claim->is_complete && now - claim->since >= us)
                        return claim;
        }
        return NULL;
}

static void on_check(evutil_socket_t fd, short what, void *data)
{
        struct pool *pool = data;
        struct claim *claim;

        while (!TAILQ_EMPTY(&pool->waiting) && (claim = find_late(pool))) {
                const struct claim_owner owner = claim->owner;
                claim_drop(claim);
                claim->was_revoked = true;
                owner.revoked(owner.data);
        }
}

static void start_checking(struct pool *pool, struct event_base *base)
{
        const struct timeval every = clock_timeval_ms(CHECK_MS);

        if (!pool->check)
                pool->check = event_new(base, -1, EV_PERSIST, on_check, pool);
        if (pool->check && !event_pending(pool->check, EV_TIMEOUT, NULL))
                event_add(pool->check, &every);
}

bool claim_ask(struct claim *claim, enum claim_pool number, size_t bytes,
               const struct claim_owner *owner)
{
        struct pool *pool = &pools[number];

        assert(claim->bytes == 0 && bytes > 0 && bytes <= pool->most);
        claim->pool = number;
        claim->bytes = bytes;
        claim->owner = *owner;
        claim->is_complete = false;
        claim->waits = !TAILQ_EMPTY(&pool->waiting) || pool->used + bytes > pool->most;
        if (!claim->waits) {
                take(pool, claim);
                return true;
        }
        TAILQ_INSERT_TAIL(&pool->waiting, claim, link);
        start_checking(pool, owner->base);
        return false;
}

void claim_complete(struct claim *claim)
{
        if (!claim_is_granted(claim))
                return;
        claim->is_complete = true;
        claim->was_revoked = false;
}

void claim_drop(struct claim *claim)
{
        struct pool *pool = &pools[claim->pool];

        if (claim->bytes == 0)
                return;
        TAILQ_REMOVE(claim->waits ? &pool->waiting : &pool->granted, claim, link);
        if (!claim->waits)
                pool->used -= claim->bytes;
        claim->bytes = 0;
        claim->waits = false;
        grant(pool);
}
