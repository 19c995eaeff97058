/*
 * How many spare sandboxes a profile should have, computed from the times at which its sessions
 * took one.
 *
 * A leaky bucket: each session adds one, and it drains at the rate at which sandboxes are made. Its
 * level is the number of spares with which no session would have waited.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/config/config.h"
#include "policy/image.h"

enum {
        POOL_SIZE_AGAIN_MS =
                250, /* delay after the end of a spare, doubled with each one in a row */
        POOL_SIZE_AGAIN_MAX_MS = 64000,
        POOL_EARLY_MS = 250, /* after a profile's first sandbox, no further one is requested */
        POOL_SIZE_LONG_LIFE_US = 60000000, /* a spare that lived longer begins a new row */
};

struct pool_size {
        char name[IMAGE_NAME_SIZE]; /* of the profile */
        bool expected;              /* sessions are expected */
        bool suspended;             /* the last request failed */
        double level;               /* of the bucket, at level_us */
        uint64_t level_us;
        unsigned int peak, peak_before; /* highest level in this period and the previous one */
        uint64_t first_us;              /* when the first sandbox was ready; 0: none was */
        unsigned int deaths;            /* in a row */
        uint64_t not_before_us;         /* the next sandbox is not requested before */
};

/* A session takes a sandbox. make_us: how long it takes to make one. */
void pool_size_note(struct pool_size *size, uint64_t now_us, double make_us);
/* Ends a period. Returns whether a session took a sandbox in it or in the previous period. */
bool pool_size_end_period(struct pool_size *size, uint64_t now_us, double make_us);
size_t pool_size_wanted(const struct pool_size *size, const struct config_pool *limits);
/* A sandbox of the profile is ready; only the first one counts. */
void pool_size_note_first(struct pool_size *size, uint64_t now_us);
/* A spare has ended lived_us after it was ready. */
void pool_size_note_death(struct pool_size *size, uint64_t now_us, uint64_t lived_us);
