/* Memory for large documents. */
#include "rpc/memory-reservation.h"

#include <assert.h>

#include "base/clock.h"

enum { CHECK_MS = 20 };

TAILQ_HEAD(reservations, memory_reservation);

static struct pool {
        size_t most;
        uint64_t us; /* for a document, when others wait */
        size_t used;
        bool is_turn_of_oldest;
        struct reservations waiting, granted; /* in order of time */
        struct event *check;                  /* while some wait */
} pools[RESERVATION_POOLS] = {
        [RESERVATION_PARTS] = {.most = RESERVATION_PARTS_MAX, .us = RESERVATION_PARTS_MS * 1000},
        [RESERVATION_FRAMES] = {.most = RESERVATION_FRAMES_MAX, .us = RESERVATION_FRAMES_MS * 1000},
        [RESERVATION_LINES] = {.most = RESERVATION_LINES_MAX, .us = RESERVATION_LINES_MS * 1000},
};

static void take(struct pool *pool, struct memory_reservation *reservation)
{
        pool->used += reservation->bytes;
        reservation->waits = false;
        reservation->since = clock_us();
        TAILQ_INSERT_TAIL(&pool->granted, reservation, link);
}

static bool comes_before(const struct pool *pool, const struct memory_reservation *a,
                         const struct memory_reservation *b)
{
        if (a->was_revoked != b->was_revoked)
                return b->was_revoked;
        return !pool->is_turn_of_oldest && a->bytes < b->bytes;
}

static struct memory_reservation *next(const struct pool *pool)
{
        struct memory_reservation *found = TAILQ_FIRST(&pool->waiting), *reservation;

        TAILQ_FOREACH (reservation, &pool->waiting, link) {
                if (comes_before(pool, reservation, found))
                        found = reservation;
        }
        return found;
}

/* granted() may ask and drop. */
static void grant(struct pool *pool)
{
        struct memory_reservation *reservation;

        while ((reservation = next(pool)) && pool->used + reservation->bytes <= pool->most) {
                TAILQ_REMOVE(&pool->waiting, reservation, link);
                pool->is_turn_of_oldest = !pool->is_turn_of_oldest;
                take(pool, reservation);
                reservation->owner.granted(reservation->owner.data);
        }
        if (TAILQ_EMPTY(&pool->waiting) && pool->check) {
                event_free(pool->check);
                pool->check = NULL;
        }
}

/* The oldest whose time is over. One that was revoked before has none if one that was not waits. */
static struct memory_reservation *find_late(const struct pool *pool)
{
        bool new_waits = !next(pool)->was_revoked;
        uint64_t now = clock_us();
        struct memory_reservation *reservation;

        TAILQ_FOREACH (reservation, &pool->granted, link) {
                uint64_t us = reservation->was_revoked && new_waits ? 0 : pool->us;
                if (!reservation->is_complete && now - reservation->since >= us)
                        return reservation;
        }
        return NULL;
}

static void on_check(evutil_socket_t fd, short what, void *data)
{
        struct pool *pool = data;
        struct memory_reservation *reservation;

        while (!TAILQ_EMPTY(&pool->waiting) && (reservation = find_late(pool))) {
                const struct memory_reservation_owner owner = reservation->owner;
                memory_reservation_drop(reservation);
                reservation->was_revoked = true;
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

bool memory_reservation_ask(struct memory_reservation *reservation,
                            enum memory_reservation_pool number, size_t bytes,
                            const struct memory_reservation_owner *owner)
{
        struct pool *pool = &pools[number];

        if (!pool->granted.tqh_last) {
                TAILQ_INIT(&pool->waiting);
                TAILQ_INIT(&pool->granted);
        }
        assert(reservation->bytes == 0 && bytes > 0 && bytes <= pool->most);
        reservation->pool = number;
        reservation->bytes = bytes;
        reservation->owner = *owner;
        reservation->is_complete = false;
        reservation->waits = !TAILQ_EMPTY(&pool->waiting) || pool->used + bytes > pool->most;
        if (!reservation->waits) {
                take(pool, reservation);
                return true;
        }
        TAILQ_INSERT_TAIL(&pool->waiting, reservation, link);
        start_checking(pool, owner->base);
        return false;
}

void memory_reservation_complete(struct memory_reservation *reservation)
{
        if (!memory_reservation_is_granted(reservation))
                return;
        reservation->is_complete = true;
        reservation->was_revoked = false;
}

void memory_reservation_drop(struct memory_reservation *reservation)
{
        struct pool *pool = &pools[reservation->pool];

        if (reservation->bytes == 0)
                return;
        TAILQ_REMOVE(reservation->waits ? &pool->waiting : &pool->granted, reservation, link);
        if (!reservation->waits)
                pool->used -= reservation->bytes;
        reservation->bytes = 0;
        reservation->waits = false;
        grant(pool);
}
