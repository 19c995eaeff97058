#include "base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t id)
{
        struct timespec t;

        clock_gettime(id, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t clock_us(void)
{
        return read_us(CLOCK_MONOTONIC);
}

uint64_t clock_boot_us(void)
{
        return read_us(CLOCK_BOOTTIME);
}

uint64_t clock_ms(void)
{
        return clock_us() / 1000;
}

struct timeval clock_timeval_ms(uint64_t ms)
{
        return (struct timeval){.tv_sec = (time_t)(ms / 1000),
                                .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
}
