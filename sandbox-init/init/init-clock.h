/* Time, as init reads it. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t init_clock_ns(clockid_t clock)
{
        struct timespec t = {};

        return clock_gettime(clock, &t) < 0 ? 0 : t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline int64_t init_clock_ms(void)
{
        return init_clock_ns(CLOCK_MONOTONIC) / 1000000;
}
