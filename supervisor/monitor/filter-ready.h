/* Filters that the build has compiled (filter-embed.c): bytes to be checked, never to be trusted.
 */
#pragma once

#include <stddef.h>

#include "policy/seccomp.h"

struct filter_ready {
        enum filter_kind kind;
        size_t n;
        const struct sock_filter *program;
};

extern const struct filter_ready filters_ready[];
extern const size_t filters_ready_count;
