/*
 * The order in which sandboxes are made: the next one is for the principal that had fewest lately.
 *
 * A template makes one sandbox at a time, and where code of others uses up the processors each takes long. If requests were served in the
 * order in which they come, a principal whose every call makes a new sandbox would delay each other one, which needs one now and then.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
        TURNS_PRINCIPALS = 1024, /* with counts of their own, by their number modulo this */
        TURNS_HALF_MS = 10000,   /* after this time a sandbox counts half */
};

struct turns {
        struct turn {
                uint32_t principal, count; /* of sandboxes, at this time, in units of turns.c */
                uint64_t at_ms;
        } of[TURNS_PRINCIPALS];
};

/* A request for a sandbox. */
struct turns_request {
        uint32_t serial, principal;
};

/* Takes the next one out of *n requests (at least one), which are in the order in which they came, and counts it. Of principals
 * with equal counts the first request is taken. */
struct turns_request turns_take(struct turns *turns, struct turns_request *list, size_t *n,
                                uint64_t now_ms);
