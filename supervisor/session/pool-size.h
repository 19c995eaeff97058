/*
 * How many ready sandboxes a profile wants, computed from when its sessions began.
 *
 * A bucket is filled by one with each session and leaks as fast as sandboxes are made. Its level is
 * the number of spares with which none would have waited.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/config.h"
#include "policy/image.h"

enum {
        POOL_SIZE_AGAIN_MS = 250, /* after a spare's death; doubled with each in a row */
        POOL_SIZE_AGAIN_MAX_MS = 64000,
        POOL_SIZE_LONG_LIFE_US = 60000000, /* a death after it is not in a row with others */
};

struct pool_size {
        char name[IMAGE_NAME_SIZE]; /* of the profile */
        bool expected;              /* somebody said that sessions will come */
        bool suspended;             /* no sandbox could be made */
        double level;
        uint64_t level_us;
        unsigned int peak, peak_before; /* of this period, of the one before */
        uint64_t first_us;              /* the first sandbox was there; 0: none was */
        unsigned int deaths;            /* in a row */
        uint64_t not_before_us;         /* the next is made */
};

/* A session begins. make_us: how long one takes to make. */
void pool_size_note(struct pool_size *d, uint64_t now_us, double make_us);
/* A period is over. Whether there was any demand in it or the one before. */
bool pool_size_look_back(struct pool_size *d, uint64_t now_us, double make_us);
size_t pool_size_wanted(const struct pool_size *d, const struct config_pool *bounds);
/* A spare has died, which had lived for so long. */
void pool_size_note_death(struct pool_size *d, uint64_t now_us, uint64_t lived_us);
