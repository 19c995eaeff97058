/* Counts and names of the files that a rollback restored, and of those that it could not restore. */
#pragma once

#include <stdint.h>

enum { ROLLBACK_NAMED_MAX = 10, ROLLBACK_NAME_SIZE = 256 };

/* Paths below the root, NUL-terminated; longer ones are only counted. */
struct rollback_names {
        uint32_t total, n;
        char names[ROLLBACK_NAMED_MAX][ROLLBACK_NAME_SIZE];
};

struct rollback_report {
        uint32_t changed;             /* files whose content was written again */
        uint32_t returned;            /* names that had been deleted or renamed */
        uint32_t removed;             /* names that were new */
        struct rollback_names named;  /* of all these */
        struct rollback_names failed; /* what is not as it was */
};
