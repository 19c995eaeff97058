/* The filters that the build compiled and checked (filter-embed.c). */
#pragma once

#include <stddef.h>

#include "policy/seccomp/rules.h"

struct filter_ready {
        enum filter_kind kind;
        size_t n;
        const struct sock_filter *program;
        uint64_t fingerprint; /* filter_fingerprint() at build time */
};

extern const struct filter_ready filters_ready[];
extern const size_t filters_ready_count;
