/* Names of members that some programs hold for equal: Go's encoding/json takes "Path" for "path". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <yyjson.h>

#include "base/error.h"
#include "policy/rules/pointer.h"
#include "policy/rules/work.h"

/* Compares without regard to case, in the ranges of letters that have simple pairs (Latin, Greek, Cyrillic), and with the
 * two letters beyond ASCII that fold into it (U+017F, U+212A). As memcmp(). */
int names_compare(const char *a, size_t n, const char *b, size_t m);

/* Checks that no two names of an object differ only in case, at any depth. Each function returns 0, -ENOTUNIQ, -E2BIG (the work is
 * too much), or -ENOMEM, with the error. */
int names_check_pairs(yyjson_val *value, struct rules_work *work, struct error *err);
/* Checks that no name differs only in case from one in the pointer. */
int names_check_pointer(const struct pointer *pointer, yyjson_val *value, struct rules_work *work,
                        struct error *err);
/* Checks that no name differs only in case from one in "properties" of the schema, or of the schemas in it. */
int names_check_schema(yyjson_val *schema, yyjson_val *value, struct rules_work *work,
                       struct error *err);
