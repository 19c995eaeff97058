/* `cloister journal verify`: reads all segments and their heads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct verify_result {
        uint64_t records, signed_records; /* of all segments */
        unsigned notes;                   /* lines that were printed besides errors */
};

/* Prints notes on standard output. key: the only key whose signatures count, 64 digits; or NULL. Negative errno: the first line that
 * is wrong; err names it. */
int journal_verify(int directory, const char *key, struct verify_result *ret, struct error *err);
