/* The ending of an English noun after a number. */
#pragma once

#include <stdint.h>

static inline const char *plural(uint64_t n)
{
        return n == 1 ? "" : "s";
}
