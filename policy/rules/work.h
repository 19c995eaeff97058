/* How much one decision may compute. A decision that would need more is not made: the call is denied. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        RULES_WORK = 500 * 1000,        /* steps of one decision: about 10 ms of the slowest kind */
        RULES_VALUE_MAX = 64 * 1024,    /* bytes of a string that a condition reads */
        RULES_REGEX_STEPS = 100 * 1000, /* of one match (pcre2_set_match_limit()) */
        RULES_REGEX_KIB = 1024,         /* of its heap */
};

struct rules_work {
        uint64_t left;
        const char *fault; /* the bound that was reached, or NULL */
};

/* Takes steps. Returns false if not enough are left; the decision has a fault then. */
static inline bool rules_work_take(struct rules_work *work, uint64_t steps)
{
        if (!work->fault && steps > work->left)
                work->fault = "the arguments have too many values to check";
        if (work->fault)
                return false;
        work->left -= steps;
        return true;
}

static inline void rules_work_fail(struct rules_work *work, const char *fault)
{
        if (!work->fault)
                work->fault = fault;
}
