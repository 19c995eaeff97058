/* Counts of calls that were sent. */
#include "supervisor/session/machine/call-counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MINUTE_US = 60 * 1000 * 1000 };

struct call_count {
        uint64_t key;
        uint64_t cell, in_cell, in_all;
        uint64_t minute;                       /* the newest */
        uint32_t minutes[CALL_COUNTS_MINUTES]; /* by minute % CALL_COUNTS_MINUTES */
};

void call_counts_done(struct call_counts *counts)
{
        free(counts->items);
        *counts = (struct call_counts){};
}

static struct call_count *find(const struct call_counts *counts, uint64_t key)
{
        for (size_t i = 0; i < counts->n; i++)
                if (counts->items[i].key == key)
                        return &counts->items[i];
        return NULL;
}

int call_counts_reserve(struct call_counts *counts, uint64_t key)
{
        if (find(counts, key))
                return 0;
        if (counts->n == CALL_COUNTS_MAX)
                return -E2BIG;
        struct call_count *grown = reallocarray(counts->items, counts->n + 1, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        counts->items = grown;
        grown[counts->n++] = (struct call_count){.key = key};
        return 0;
}

/* Empties the minutes that have passed since the newest one. */
static void advance(struct call_count *c, uint64_t minute)
{
        if (minute >= c->minute + CALL_COUNTS_MINUTES)
                memset(c->minutes, 0, sizeof(c->minutes));
        else
                for (uint64_t m = c->minute + 1; m <= minute; m++)
                        c->minutes[m % CALL_COUNTS_MINUTES] = 0;
        if (minute > c->minute)
                c->minute = minute;
}

void call_counts_add(struct call_counts *counts, uint64_t key, uint64_t cell, uint64_t now_us)
{
        struct call_count *c = find(counts, key);

        if (!c)
                return;
        if (c->cell != cell)
                c->in_cell = 0;
        c->cell = cell;
        c->in_cell++;
        c->in_all++;
        advance(c, now_us / MINUTE_US);
        c->minutes[c->minute % CALL_COUNTS_MINUTES]++;
}

uint64_t call_counts_in_cell(const struct call_counts *counts, uint64_t key, uint64_t cell)
{
        const struct call_count *c = find(counts, key);

        return c && c->cell == cell ? c->in_cell : 0;
}

uint64_t call_counts_in_all(const struct call_counts *counts, uint64_t key)
{
        const struct call_count *c = find(counts, key);

        return c ? c->in_all : 0;
}

uint64_t call_counts_in_hour(const struct call_counts *counts, uint64_t key, uint64_t now_us)
{
        struct call_count *c = find(counts, key);
        uint64_t sum = 0;

        if (!c)
                return 0;
        advance(c, now_us / MINUTE_US);
        for (size_t i = 0; i < CALL_COUNTS_MINUTES; i++)
                sum += c->minutes[i];
        return sum;
}

int call_counts_copy(struct call_counts *to, const struct call_counts *from)
{
        struct call_count *copy = from->n ? reallocarray(NULL, from->n, sizeof(*copy)) : NULL;

        if (from->n && !copy)
                return -ENOMEM;
        if (copy)
                memcpy(copy, from->items, from->n * sizeof(*copy));
        free(to->items);
        *to = (struct call_counts){copy, from->n};
        return 0;
}
