/* One rule of a system call filter; rules.h says what it means. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILTER_COMPARES_MAX = 3 };

/* (argument & mask) == value, or, if unequal, argument != value with all 64 bits (mask UINT64_MAX).
 */
struct filter_compare {
        uint64_t mask; /* 0: no comparison, the list ends here */
        uint64_t value;
        uint8_t argument;
        bool unequal;
};

struct filter_rule {
        const char *calls; /* names, separated by white space; NULL ends a list of rules */
        uint32_t action;   /* SECCOMP_RET_… */
        struct filter_compare compares[FILTER_COMPARES_MAX];
        const uint32_t *
                values; /* one rule for each, as the value of the last comparison; 0 ends the list; NULL: none */
};
