/* The order in which sandboxes are made. */
#include "supervisor/monitor/turns.h"

#include <string.h>

enum { ONE = 1024, COUNT_MAX = 1024 * 1024 * ONE };

/* Halved for each TURNS_HALF_MS, in a straight line between two of them. */
static uint32_t decayed(uint32_t count, uint64_t passed_ms)
{
        uint64_t halves = passed_ms / TURNS_HALF_MS, rest = passed_ms % TURNS_HALF_MS;

        if (halves >= 32)
                return 0;
        count >>= halves;
        return count - (uint32_t)(count * rest / (2 * TURNS_HALF_MS));
}

/* How many sandboxes were made for the principal lately, in ONE. */
static uint32_t count_of(const struct turns *turns, uint32_t principal, uint64_t now_ms)
{
        const struct turn *t = &turns->of[principal % TURNS_PRINCIPALS];

        return t->principal == principal ? decayed(t->count, now_ms - t->at_ms) : 0;
}

static void note(struct turns *turns, uint32_t principal, uint64_t now_ms)
{
        uint32_t count = count_of(turns, principal, now_ms);

        turns->of[principal % TURNS_PRINCIPALS] = (struct turn){
                .principal = principal,
                .count = count < COUNT_MAX ? count + ONE : count,
                .at_ms = now_ms,
        };
}

struct turns_request turns_take(struct turns *turns, struct turns_request *list, size_t *n,
                                uint64_t now_ms)
{
        uint32_t fewest = UINT32_MAX;
        size_t next = 0;

        for (size_t i = 0; i < *n; i++) {
                uint32_t count = count_of(turns, list[i].principal, now_ms);
                if (count >= fewest)
                        continue;
                fewest = count;
                next = i;
        }
        struct turns_request ret = list[next];
        memmove(list + next, list + next + 1, (--*n - next) * sizeof(*list));
        note(turns, ret.principal, now_ms);
        return ret;
}
