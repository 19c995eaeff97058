/* How several principals share what is bounded in all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a principal that has `own` of the `all` that are taken may take n more. What it has then is at most what remains
 * free ("dynamic thresholds", as switches share their buffers): alone it gets a half, and N principals that take all that
 * they can leave 1/(N + 1) to the next one, whatever each of them does.
 */
static inline bool share_allows(size_t own, size_t all, size_t most, size_t n)
{
        return all <= most && n <= most - all && own + n <= most - all;
}
