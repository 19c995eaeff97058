/* A rate limit: a maximum in each window of time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct rate {
        uint64_t window_us;
        uint64_t most;  /* maximum in a window */
        uint64_t since; /* when the window began */
        uint64_t count;
        uint64_t over; /* how many exceeded the maximum in this window */
};

/* Counts n. Returns whether it is within the limit. *missed (may be NULL): how many exceeded it in the
 * window that this call ends, else 0. */
static inline bool rate_allow(struct rate *r, uint64_t n, uint64_t *missed)
{
        uint64_t now = clock_us();

        if (missed)
                *missed = 0;
        if (r->since == 0 || now - r->since >= r->window_us) {
                if (missed)
                        *missed = r->over;
                r->since = now;
                r->count = r->over = 0;
        }
        r->count += n;
        if (r->count <= r->most)
                return true;
        r->over += n;
        return false;
}
